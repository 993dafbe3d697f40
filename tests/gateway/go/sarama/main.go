// One consumer of IBM/sarama, told what to do by lines on standard input, see ../lines: "join",
// "hang MS" (as long in the next handling of records), "commit", "close".
//
// It says "assigned" when the handler of a partition begins and "revoked" when it has ended.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"zkcoord/wire/lines"
)

const batch = 500

// handler is what sarama calls; session is the one that is on, if any.
type handler struct {
	hang    atomic.Int64
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
}

func (h *handler) set(session sarama.ConsumerGroupSession) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.session = session
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.set(session)
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error {
	h.set(nil)
	return nil
}

func (h *handler) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	lines.Say("assigned", claim.Partition())
	defer func() { lines.Say("revoked", claim.Partition()) }()
	for {
		select {
		case first, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.handle(session, claim, first)
		case <-session.Context().Done():
			return nil
		}
	}
}

// handle takes a record and those behind it that are there already.
func (h *handler) handle(
	session sarama.ConsumerGroupSession,
	claim sarama.ConsumerGroupClaim,
	first *sarama.ConsumerMessage,
) {
	last := first
	for more := true; more && last.Offset-first.Offset < batch; {
		select {
		case next, open := <-claim.Messages():
			if more = open; open {
				last = next
			}
		default:
			more = false
		}
	}
	lines.Took(claim.Partition(), first.Offset, last.Offset)
	lines.Hanging(time.Duration(h.hang.Swap(0)))
	session.MarkMessage(last, "")
}

func settings(options lines.Options) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.AutoCommit.Enable = options["enable.auto.commit"] != "false"
	options.Has("auto.offset.reset", func(value string) {
		if value == "earliest" {
			config.Consumer.Offsets.Initial = sarama.OffsetOldest
		}
	})
	options.Has("group.instance.id", func(value string) {
		config.Consumer.Group.InstanceId = value
	})
	options.Has("partition.assignment.strategy", func(value string) {
		known := map[string]sarama.BalanceStrategy{
			"range":              sarama.NewBalanceStrategyRange(),
			"roundrobin":         sarama.NewBalanceStrategyRoundRobin(),
			"sticky":             sarama.NewBalanceStrategySticky(),
			"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky(),
		}
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{known[value]}
	})
	options.Milliseconds("session.timeout.ms", func(value time.Duration) {
		config.Consumer.Group.Session.Timeout = value
	})
	options.Milliseconds("heartbeat.interval.ms", func(value time.Duration) {
		config.Consumer.Group.Heartbeat.Interval = value
	})
	options.Milliseconds("auto.commit.interval.ms", func(value time.Duration) {
		config.Consumer.Offsets.AutoCommit.Interval = value
	})
	return config
}

func consume(ctx context.Context, group sarama.ConsumerGroup, topic string, h *handler) {
	for ctx.Err() == nil {
		err := group.Consume(ctx, []string{topic}, h)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if err != nil {
			log.Print(err)
		}
	}
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.Lmicroseconds)
	sarama.DebugLogger = sarama.Logger
	topic, options := lines.Given()
	servers := strings.Split(options["bootstrap.servers"], ",")
	client, err := sarama.NewClient(servers, settings(options))
	lines.Check(err)
	_, err = client.Partitions(topic)
	lines.Check(err)
	group, err := sarama.NewConsumerGroupFromClient(options["group.id"], client)
	lines.Check(err)
	lines.Event("ready")
	h := &handler{}
	ctx, stop := context.WithCancel(context.Background())
	var consuming sync.WaitGroup
	for order := range lines.Orders() {
		if length, found := lines.Hang(order); found {
			h.hang.Store(int64(length))
		}
		switch order {
		case "join":
			lines.Event("joins")
			consuming.Add(1)
			go func() {
				defer consuming.Done()
				consume(ctx, group, topic, h)
			}()
		case "commit":
			h.lock.Lock()
			if h.session == nil {
				lines.Committed(errors.New("no session"))
			} else {
				h.session.Commit()
				lines.Committed(nil)
			}
			h.lock.Unlock()
		case "close":
			lines.Event("closes")
			stop()
			consuming.Wait()
			if err := group.Close(); err != nil {
				log.Print(err)
			}
			lines.Event("closed")
			return
		}
	}
}
