import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

import kafka.consumer.Blacklist;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.ConsumerTimeoutException;
import kafka.consumer.KafkaStream;
import kafka.consumer.TopicFilter;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;

/**
 * Old consumers that tell what they do and do what they are told. It compiles against every release from 0.8.2 to 1.1, so what only some of them have is asked for by reflection.
 *
 * In, one command a line, fields separated by tabs (so no value holds one):
 *     open NAME key=value ...     a ConsumerConnector; keys are the old consumer's own, but for  @topics=orders:2,clicks:1  or  @whitelist=REGEX  or  @blacklist=REGEX  with  @threads=N,
 *                                 @batch=N (records of one line; what is in it when the process is killed is not told)  and  @delay.ms=N (what the application does with each record)
 *     commit NAME                 commitOffsets
 *     block NAME MS               what the application does with the next record takes so long, once
 *     close NAME                  shutdown
 * The end of the input ends the process at once, as if it had been killed.
 *
 * Out, one JSON object a line, with `event`, `t` (wall-clock nanoseconds, when it happened), `consumer`; partitions are written topic-number. What Python's verifiable consumer also says is said in its words:
 *     ready {zookeeper}; opening; registered {id, ms}: the streams are there; failed {type, message}: a command ended so
 *     assigned {offsets}: owner nodes are made and fetchers not yet started, with what is stored (from 0.9 on); revoked {positions}: fetchers are stopped and owner nodes not yet deleted (from 0.9 on)
 *     records {ranges: {partition: [[first, last, count, 0]]}, count}: when handed out; committed {offsets}: what is stored then; blocked, unblocked; closing, closed {ms}
 */
public final class LegacyHarness {
    private static final OutputStream OUT = new FileOutputStream(FileDescriptor.out);
    private static final long IDLE_MS = 100;
    private static final long PATIENCE_MS = 30_000;
    private static final int SESSION_MS = 10_000;
    private static String zookeeper;
    private static ZooKeeper looking;

    public static void main(String[] arguments) throws IOException {
        zookeeper = arguments[0];
        Map<String, Member> members = new HashMap<>();
        say("", "ready", now(), ",\"zookeeper\":" + quoted(zookeeper));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t");
            Member member = members.get(fields[1]);
            if (fields[0].equals("open")) {
                member = new Member(fields[1]);
                members.put(fields[1], member);
                for (int at = 2; at < fields.length; at++) {
                    int equals = fields[at].indexOf('=');
                    member.settings.setProperty(fields[at].substring(0, equals), fields[at].substring(equals + 1));
                }
            }
            if (fields[0].equals("block")) {
                member.blockMs.set(Long.parseLong(fields[2]));
            } else {
                member.ask(fields[0]);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static long now() {
        Instant at = Instant.now();
        return at.getEpochSecond() * 1_000_000_000L + at.getNano();
    }

    static void say(String consumer, String event, long t, String more) {
        byte[] line = ("{\"event\":\"" + event + "\",\"t\":" + t + ",\"consumer\":" + quoted(consumer) + more + "}\n").getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            try {
                OUT.write(line);
            } catch (IOException closed) {
                Runtime.getRuntime().halt(1);
            }
        }
    }

    static String quoted(String text) {
        StringBuilder found = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            found.append(c == '"' || c == '\\' ? "\\" + c : c < ' ' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return found.append('"').toString();
    }

    /** {"t-0":12,...} */
    static String object(Map<String, Long> numbers) {
        StringBuilder found = new StringBuilder("{");
        for (Map.Entry<String, Long> entry : numbers.entrySet()) {
            found.append(found.length() > 1 ? "," : "").append(quoted(entry.getKey())).append(':').append(entry.getValue());
        }
        return found.append('}').toString();
    }

    /** What is stored of these partitions (topic, number) of a group; what has no offset is left out. All are asked for at once, on a session of its own: the consumers' rebalances must not wait for it longer than needed. */
    static synchronized Map<String, Long> stored(String group, Collection<Object[]> partitions) throws Exception {
        for (int attempt = 0; ; attempt++) {
            if (looking == null) {
                final CountDownLatch connected = new CountDownLatch(1);
                looking = new ZooKeeper(zookeeper, SESSION_MS, event -> connected.countDown());
                connected.await(PATIENCE_MS, TimeUnit.MILLISECONDS);
            }
            final Map<String, Long> found = new ConcurrentSkipListMap<>();
            final Set<Integer> failures = ConcurrentHashMap.newKeySet();
            final CountDownLatch answers = new CountDownLatch(partitions.size());
            for (final Object[] partition : partitions) {
                String path = "/consumers/" + group + "/offsets/" + partition[0] + "/" + partition[1];
                AsyncCallback.DataCallback told = (code, unused, context, data, stat) -> {
                    if (code == KeeperException.Code.OK.intValue()) {
                        found.put(partition[0] + "-" + partition[1], Long.valueOf(new String(data, StandardCharsets.UTF_8)));
                    } else if (code != KeeperException.Code.NONODE.intValue()) {
                        failures.add(code);
                    }
                    answers.countDown();
                };
                looking.getData(path, false, told, null);
            }
            if (answers.await(PATIENCE_MS, TimeUnit.MILLISECONDS) && failures.isEmpty()) {
                return found;
            }
            looking.close();
            looking = null;
            if (attempt == 2) {
                throw new IllegalStateException("offsets could not be read, ZooKeeper's codes: " + failures);
            }
        }
    }

    /** One consumer. Its commands are carried out one after the other, beside those of the others. */
    static final class Member {
        final String name;
        final Properties settings = new Properties();
        final Map<String, Object[]> owned = new ConcurrentHashMap<>();
        final ExecutorService desk = Executors.newSingleThreadExecutor();
        ConsumerConnector connector;
        int batch;
        long delayMs;
        final AtomicLong blockMs = new AtomicLong();
        List<Thread> readers = new ArrayList<>();

        Member(String name) {
            this.name = name;
        }

        void ask(final String command) {
            desk.execute(() -> {
                try {
                    switch (command) {
                        case "open": open(); break;
                        case "commit": commit(); break;
                        case "close": close(); break;
                        default: throw new IllegalArgumentException(command + " is no command");
                    }
                } catch (Throwable error) {
                    say(name, "failed", now(), ",\"command\":" + quoted(command) + ",\"type\":" + quoted(error.getClass().getSimpleName()) + ",\"message\":" + quoted(String.valueOf(error.getMessage())));
                }
            });
        }

        String option(String key, String usual) {
            String found = (String) settings.remove(key);
            return found == null ? usual : found;
        }

        void open() throws Exception {
            long began = System.nanoTime();
            say(name, "opening", now(), "");
            String topics = option("@topics", ""), white = option("@whitelist", null), black = option("@blacklist", null);
            int threads = Integer.parseInt(option("@threads", "1"));
            batch = Integer.parseInt(option("@batch", "1"));
            delayMs = Long.parseLong(option("@delay.ms", "0"));
            settings.setProperty("zookeeper.connect", zookeeper);
            settings.setProperty("consumer.timeout.ms", String.valueOf(IDLE_MS));
            connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
            listen();
            List<KafkaStream<byte[], byte[]>> streams = new ArrayList<>();
            if (white != null || black != null) {
                TopicFilter filter = white != null ? new Whitelist(white) : new Blacklist(black);
                streams.addAll(connector.createMessageStreamsByFilter(filter, threads));
            } else {
                Map<String, Integer> wanted = new LinkedHashMap<>();
                for (String topic : topics.split(",")) {
                    int colon = topic.lastIndexOf(':');
                    wanted.put(topic.substring(0, colon), Integer.valueOf(topic.substring(colon + 1)));
                }
                for (List<KafkaStream<byte[], byte[]>> of : connector.createMessageStreams(wanted).values()) {
                    streams.addAll(of);
                }
            }
            for (final KafkaStream<byte[], byte[]> stream : streams) {
                Thread reader = new Thread(() -> read(stream), name + "-" + readers.size());
                readers.add(reader);
                reader.setDaemon(true);
                reader.start();
            }
            say(name, "registered", now(), ",\"id\":" + quoted(group() + "_" + settings.getProperty("consumer.id")) + ",\"ms\":" + (System.nanoTime() - began) / 1_000_000);
        }

        String group() {
            return settings.getProperty("group.id");
        }

        void commit() throws Exception {
            connector.commitOffsets(true);
            say(name, "committed", now(), ",\"offsets\":" + object(stored(group(), owned.values())));
        }

        void close() throws Exception {
            long began = System.nanoTime();
            say(name, "closing", now(), "");
            connector.shutdown();
            for (Thread reader : readers) {
                reader.join(PATIENCE_MS);
            }
            say(name, "closed", now(), ",\"ms\":" + (System.nanoTime() - began) / 1_000_000);
        }

        void read(KafkaStream<byte[], byte[]> stream) {
            ConsumerIterator<byte[], byte[]> records = stream.iterator();
            Told told = new Told(name);
            while (true) {
                try {
                    if (!records.hasNext()) {
                        break;
                    }
                } catch (ConsumerTimeoutException idle) {
                    told.tell();
                    continue;
                }
                MessageAndMetadata<byte[], byte[]> record = records.next();
                if (told.add(record.topic() + "-" + record.partition(), record.offset()) >= batch) {
                    told.tell();
                }
                try {
                    if (delayMs > 0) {
                        Thread.sleep(delayMs);
                    }
                    block();
                } catch (InterruptedException stopped) {
                    break;
                }
            }
            told.tell();
        }

        void block() throws InterruptedException {
            long ms = blockMs.getAndSet(0);
            if (ms > 0) {
                say(name, "blocked", now(), "");
                Thread.sleep(ms);
                say(name, "unblocked", now(), "");
            }
        }

        /** From 0.9 on a connector says when it lets go of partitions, and what everybody in the group gets. */
        void listen() throws Exception {
            Class<?> type;
            try {
                type = Class.forName("kafka.javaapi.consumer.ConsumerRebalanceListener");
            } catch (ClassNotFoundException older) {
                return;
            }
            InvocationHandler told = (proxy, method, given) -> {
                long t = now();
                if (method.getName().equals("beforeReleasingPartitions")) {
                    Map<String, Long> nothing = new TreeMap<>();
                    for (String partition : owned.keySet()) {
                        nothing.put(partition, -1L);
                    }
                    owned.clear();
                    say(name, "revoked", t, ",\"positions\":" + object(nothing));
                } else if (method.getName().equals("beforeStartingFetchers")) {
                    for (Map.Entry<?, ?> topic : ((Map<?, ?>) given[1]).entrySet()) {
                        for (Map.Entry<?, ?> partition : ((Map<?, ?>) topic.getValue()).entrySet()) {
                            String thread = String.valueOf(partition.getValue());
                            if (thread.substring(0, thread.lastIndexOf('-')).equals(given[0])) {
                                owned.put(topic.getKey() + "-" + partition.getKey(), new Object[] {topic.getKey(), partition.getKey()});
                            }
                        }
                    }
                    Map<String, Long> offsets = stored(group(), owned.values());
                    for (String partition : owned.keySet()) {
                        offsets.putIfAbsent(partition, -1L);
                    }
                    say(name, "assigned", t, ",\"offsets\":" + object(offsets));
                }
                return null;
            };
            connector.getClass().getMethod("setConsumerRebalanceListener", type).invoke(connector, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, told));
        }
    }

    /** Records of one stream that were handed out and not yet told. */
    static final class Told {
        final String consumer;
        final Map<String, List<long[]>> ranges = new TreeMap<>();
        int count;

        Told(String consumer) {
            this.consumer = consumer;
        }

        int add(String partition, long offset) {
            List<long[]> found = ranges.computeIfAbsent(partition, unused -> new ArrayList<>());
            long[] last = found.isEmpty() ? null : found.get(found.size() - 1);
            if (last != null && last[1] + 1 == offset) {
                last[1] = offset;
            } else {
                found.add(new long[] {offset, offset});
            }
            return ++count;
        }

        void tell() {
            if (count == 0) {
                return;
            }
            StringBuilder text = new StringBuilder(",\"count\":" + count + ",\"ranges\":{");
            for (Map.Entry<String, List<long[]>> entry : ranges.entrySet()) {
                text.append(text.charAt(text.length() - 1) == '{' ? "" : ",").append(quoted(entry.getKey())).append(":[");
                for (long[] range : entry.getValue()) {
                    text.append(text.charAt(text.length() - 1) == '[' ? "" : ",").append("[" + range[0] + "," + range[1] + "," + (range[1] - range[0] + 1) + ",0]");
                }
                text.append("]");
            }
            say(consumer, "records", now(), text.append("}").toString());
            ranges.clear();
            count = 0;
        }
    }
}
