// One franz-go consumer, told what to do by lines on standard input, see ../lines: "join", "hang
// MS" (as long in the next handling of records), "commit", "close".
//
// What was handled is marked, and committed by the client: now and then, and when partitions are
// revoked, which waits for the handler (BlockRebalanceOnPoll). Each offset that was accepted is told
// of: "stored", a partition and the offset.
package main

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"zkcoord/wire/lines"
)

const wait = 20 * time.Millisecond

func numbers(found map[string][]int32) []int32 {
	var all []int32
	for _, partitions := range found {
		all = append(all, partitions...)
	}
	return lines.Sorted(all)
}

// stored tells which offsets of an automatic commit were accepted.
func stored(
	_ *kgo.Client, asked *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
) {
	if err != nil {
		lines.Committed(err)
		return
	}
	accepted := map[int32]bool{}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			accepted[partition.Partition] = partition.ErrorCode == 0
		}
	}
	for _, topic := range asked.Topics {
		for _, partition := range topic.Partitions {
			if accepted[partition.Partition] {
				lines.Say("stored", int64(partition.Partition), partition.Offset)
			}
		}
	}
}

// commit stores what was handled, before it is given up.
func commit(ctx context.Context, client *kgo.Client) {
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		lines.Committed(err)
		return
	}
	for _, partitions := range client.CommittedOffsets() {
		for partition, at := range partitions {
			if at.Offset >= 0 {
				lines.Say("stored", int64(partition), at.Offset)
			}
		}
	}
}

func settings(options lines.Options) []kgo.Opt {
	found := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(options["bootstrap.servers"], ",")...),
		kgo.ConsumerGroup(options["group.id"]),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, found map[string][]int32) {
			lines.Say("assigned", numbers(found)...)
		}),
		kgo.OnPartitionsRevoked(
			func(ctx context.Context, client *kgo.Client, found map[string][]int32) {
				if options["enable.auto.commit"] != "false" {
					commit(ctx, client)
				}
				lines.Say("revoked", numbers(found)...)
			},
		),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, found map[string][]int32) {
			lines.Say("lost", numbers(found)...)
		}),
	}
	if options["enable.auto.commit"] == "false" {
		found = append(found, kgo.DisableAutoCommit())
	} else {
		found = append(found, kgo.AutoCommitMarks(), kgo.AutoCommitCallback(stored))
	}
	options.Has("auto.offset.reset", func(value string) {
		at := kgo.NewOffset().AtStart()
		if value == "latest" {
			at = kgo.NewOffset().AtEnd()
		}
		found = append(found, kgo.ConsumeResetOffset(at))
	})
	options.Has("group.instance.id", func(value string) {
		found = append(found, kgo.InstanceID(value))
	})
	options.Has("partition.assignment.strategy", func(value string) {
		known := map[string]kgo.GroupBalancer{
			"range":              kgo.RangeBalancer(),
			"roundrobin":         kgo.RoundRobinBalancer(),
			"sticky":             kgo.StickyBalancer(),
			"cooperative-sticky": kgo.CooperativeStickyBalancer(),
		}
		found = append(found, kgo.Balancers(known[value]))
	})
	options.Milliseconds("session.timeout.ms", func(value time.Duration) {
		found = append(found, kgo.SessionTimeout(value))
	})
	options.Milliseconds("heartbeat.interval.ms", func(value time.Duration) {
		found = append(found, kgo.HeartbeatInterval(value))
	})
	options.Milliseconds("auto.commit.interval.ms", func(value time.Duration) {
		found = append(found, kgo.AutoCommitInterval(value))
	})
	return found
}

func main() {
	topic, options := lines.Given()
	client, err := kgo.NewClient(settings(options)...)
	lines.Check(err)
	lines.Check(client.Ping(context.Background()))
	lines.Event("ready")
	var hang time.Duration
	orders, joined := lines.Orders(), false
	for {
		order := ""
		if joined {
			select {
			case order = <-orders:
			default:
			}
		} else {
			order = <-orders
		}
		if length, found := lines.Hang(order); found {
			hang = length
		}
		switch order {
		case "join":
			lines.Event("joins")
			joined = true
			client.AddConsumeTopics(topic)
		case "commit":
			lines.Committed(client.CommitMarkedOffsets(context.Background()))
		case "close":
			lines.Event("closes")
			client.CloseAllowingRebalance()
			lines.Event("closed")
			return
		}
		if !joined {
			continue
		}
		hang = handle(client, hang)
	}
}

// handle asks for records once; how long the next handler is to hang.
func handle(client *kgo.Client, hang time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	fetches := client.PollFetches(ctx)
	defer client.AllowRebalance()
	if fetches.NumRecords() == 0 {
		return hang
	}
	fetches.EachPartition(func(found kgo.FetchTopicPartition) {
		if last := len(found.Records) - 1; last >= 0 {
			lines.Took(found.Partition, found.Records[0].Offset, found.Records[last].Offset)
			client.MarkCommitRecords(found.Records[last])
		}
	})
	lines.Hanging(hang)
	return 0
}
