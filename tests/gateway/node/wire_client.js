// One kafkajs consumer, told what to do by lines on standard input: "join", "hang MS" (as long in
// the next handling of records), "commit", "close". It says what happens in lines of "NANOSECONDS
// EVENT NUMBERS" of the machine's monotonic clock, as ../java/WireClient.java does.
//
// kafkajs has no callbacks for partitions: it stops for all of them when a heartbeat, a fetch or a
// commit says that the group rebalances ("revoked"), and has them with its next GROUP_JOIN
// ("assigned"). It commits after each batch, and tells of each offset that was accepted: "stored",
// a partition and the offset.

import readline from "node:readline";
import { Kafka, logLevel } from "kafkajs";

const RESTARTING = "KafkaJSNumberOfRetriesExceeded";
const [topic, ...given] = process.argv.slice(2);
const options = Object.fromEntries(given.map((one) => one.split(/=(.*)/s).slice(0, 2)));
const number = (name) => (options[name] === undefined ? undefined : Number(options[name]));

function say(event, numbers = []) {
  process.stdout.write(`${process.hrtime.bigint()} ${event} ${numbers.join(",")}\n`);
}

const kafka = new Kafka({
  brokers: options["bootstrap.servers"].split(","),
  logLevel: logLevel.WARN,
  logCreator: () => (entry) => console.error(JSON.stringify(entry)),
});
const consumer = kafka.consumer({
  groupId: options["group.id"],
  sessionTimeout: number("session.timeout.ms"),
  heartbeatInterval: number("heartbeat.interval.ms"),
});

let owned = [];
let hang = 0;
let closing = false;
const reached = new Map(); // partition -> the offset to commit

function give_up(event) {
  if (owned.length) {
    say(event, owned);
  }
  owned = [];
}

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  give_up("revoked");
  if (closing) {
    return; // it joins once more before it leaves, and hands out nothing
  }
  owned = (payload.memberAssignment[topic] ?? []).slice().sort((a, b) => a - b);
  say("assigned", owned);
});
consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
  for (const { partitions } of payload.topics) {
    for (const { partition, offset } of partitions) {
      say("stored", [partition, offset]);
    }
  }
});
consumer.on(consumer.events.REBALANCING, () => give_up("revoked"));
consumer.on(consumer.events.CRASH, ({ payload }) => {
  console.error(payload.error);
  give_up("lost");
  if (payload.error.name !== RESTARTING && !payload.restart) {
    process.exit(1);
  }
});

async function eachBatch({ batch }) {
  const first = batch.messages[0];
  const last = batch.messages[batch.messages.length - 1];
  say("records", [batch.partition]);
  say("took", [batch.partition, first.offset, last.offset]);
  if (hang) {
    say("hangs");
    const length = hang;
    hang = 0;
    await new Promise((resolve) => setTimeout(resolve, length));
    say("goes on");
  }
  reached.set(batch.partition, String(BigInt(last.offset) + 1n));
}

async function commit() {
  const offsets = owned
    .filter((partition) => reached.has(partition))
    .map((partition) => ({ topic, partition, offset: reached.get(partition) }));
  try {
    await consumer.commitOffsets(offsets);
    say("committed");
  } catch (error) {
    console.error(error);
    say("commit failed");
  }
}

async function order(line) {
  if (line === "join") {
    say("joins");
    await consumer.subscribe({
      topics: [topic],
      fromBeginning: options["auto.offset.reset"] === "earliest",
    });
    await consumer.run({ autoCommit: options["enable.auto.commit"] !== "false", eachBatch });
  } else if (line.startsWith("hang ")) {
    hang = Number(line.slice(5));
  } else if (line === "commit") {
    await commit();
  } else if (line === "close") {
    closing = true;
    say("closes");
    await consumer.disconnect();
    say("closed");
    process.exit(0);
  }
}

await consumer.connect();
const admin = kafka.admin();
await admin.connect();
await admin.fetchTopicMetadata({ topics: [topic] });
await admin.disconnect();
say("ready");
let done = Promise.resolve();
const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => {
  done = done.then(() => order(line.trim()));
});
lines.on("close", () => {
  done = done.then(() => order("close"));
});
