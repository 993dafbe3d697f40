// Package lines is what the clients of this module share: orders come as lines on standard input,
// and what happens is said in lines of "NANOSECONDS EVENT NUMBERS" of the machine's monotonic
// clock, as in ../java/WireClient.java.
package lines

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const monotonic = 1

var writing sync.Mutex

func now() int64 {
	var found syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&found)), 0)
	return found.Nano()
}

// Say writes one line.
func Say[N int32 | int64](event string, numbers ...N) {
	shown := make([]string, len(numbers))
	for at, number := range numbers {
		shown[at] = strconv.FormatInt(int64(number), 10)
	}
	writing.Lock()
	defer writing.Unlock()
	fmt.Printf("%d %s %s\n", now(), event, strings.Join(shown, ","))
}

// Event writes a line without numbers.
func Event(event string) { Say[int32](event) }

// Took says that a batch of records of one partition was handed out: first and last offset.
func Took(partition int32, first int64, last int64) {
	Say("records", partition)
	Say("took", int64(partition), first, last)
}

// Sorted is a partition list in order.
func Sorted(partitions []int32) []int32 {
	sort.Slice(partitions, func(a, b int) bool { return partitions[a] < partitions[b] })
	return partitions
}

// Orders are the lines of standard input; its end is "close".
func Orders() <-chan string {
	orders := make(chan string, 100)
	go func() {
		read := bufio.NewScanner(os.Stdin)
		for read.Scan() {
			orders <- read.Text()
		}
		orders <- "close"
	}()
	return orders
}

// Options are the settings after the topic, by the names that the Java client gives them.
type Options map[string]string

// Given reads the command line: a topic, and name=value of each setting.
func Given() (string, Options) {
	found := Options{}
	for _, one := range os.Args[2:] {
		name, value, _ := strings.Cut(one, "=")
		found[name] = value
	}
	return os.Args[1], found
}

// Has calls use with a setting's value, if it is given.
func (options Options) Has(name string, use func(value string)) {
	if value, given := options[name]; given {
		use(value)
	}
}

// Milliseconds calls use with a setting that is a duration in ms, if it is given.
func (options Options) Milliseconds(name string, use func(value time.Duration)) {
	options.Has(name, func(value string) {
		number, err := strconv.Atoi(value)
		Check(err)
		use(time.Duration(number) * time.Millisecond)
	})
}

// Hang reads the order "hang MS".
func Hang(order string) (time.Duration, bool) {
	value, found := strings.CutPrefix(order, "hang ")
	number, err := strconv.Atoi(value)
	return time.Duration(number) * time.Millisecond, found && err == nil
}

// Hanging is a handler that is stuck for so long.
func Hanging(length time.Duration) {
	if length > 0 {
		Event("hangs")
		time.Sleep(length)
		Event("goes on")
	}
}

// Committed says how a commit ended.
func Committed(err error) {
	if err != nil {
		log.Print(err)
		Event("commit failed")
		return
	}
	Event("committed")
}

// Check ends the program when something cannot be.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
