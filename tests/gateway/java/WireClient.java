import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One consumer of Kafka's own Java client, told what to do by lines on standard input: "join",
 * "hang MS" (as long in the next handling of records), "commit", "close". It says what happens by
 * lines of "NANOSECONDS EVENT NUMBERS", of the clock that System.nanoTime reads. The numbers are
 * partitions, but those of "took": a partition, the first and the last offset of a batch of it.
 */
public class WireClient {
    /** Round robin, under a name that no server knows. */
    public static class OwnAssignor extends RoundRobinAssignor {
        @Override
        public String name() {
            return "own";
        }
    }

    private static void say(String event, Collection<TopicPartition> partitions) {
        String numbers =
                partitions.stream()
                        .map(tp -> Integer.toString(tp.partition()))
                        .collect(Collectors.joining(","));
        line(event, numbers);
    }

    private static void line(String event, String numbers) {
        System.out.println(System.nanoTime() + " " + event + " " + numbers);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        Properties options = new Properties();
        for (int n = 1; n < arguments.length; n++) {
            int at = arguments[n].indexOf('=');
            options.put(arguments[n].substring(0, at), arguments[n].substring(at + 1));
        }
        options.put("key.deserializer", ByteArrayDeserializer.class.getName());
        options.put("value.deserializer", ByteArrayDeserializer.class.getName());
        String topic = arguments[0];
        ConcurrentLinkedQueue<String> orders = new ConcurrentLinkedQueue<>();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options);
        consumer.partitionsFor(topic);
        say("ready", List.of());
        Thread reader =
                new Thread(
                        () -> {
                            try {
                                BufferedReader lines =
                                        new BufferedReader(new InputStreamReader(System.in));
                                String line;
                                while ((line = lines.readLine()) != null) {
                                    orders.add(line);
                                }
                            } catch (java.io.IOException ignored) {
                                // the end, as below
                            }
                            orders.add("close");
                        });
        reader.setDaemon(true);
        reader.start();
        long hang = 0;
        boolean joined = false;
        while (true) {
            String order = orders.poll();
            if ("join".equals(order)) {
                say("joins", List.of());
                joined = true;
                consumer.subscribe(
                        List.of(topic),
                        new ConsumerRebalanceListener() {
                            @Override
                            public void onPartitionsAssigned(Collection<TopicPartition> found) {
                                say("assigned", found);
                            }

                            @Override
                            public void onPartitionsRevoked(Collection<TopicPartition> found) {
                                say("revoked", found);
                            }

                            @Override
                            public void onPartitionsLost(Collection<TopicPartition> found) {
                                say("lost", found);
                            }
                        });
            } else if (order != null && order.startsWith("hang ")) {
                hang = Long.parseLong(order.substring(5));
            } else if ("commit".equals(order)) {
                try {
                    consumer.commitSync();
                    say("committed", List.of());
                } catch (KafkaException refused) {
                    System.err.println(refused);
                    say("commit failed", List.of());
                }
            } else if ("close".equals(order)) {
                say("closes", List.of());
                consumer.close();
                say("closed", List.of());
                return;
            }
            if (!joined) {
                Thread.sleep(2);
                continue;
            }
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(20));
            if (records.isEmpty()) {
                continue;
            }
            say("records", records.partitions());
            for (TopicPartition partition : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> found = records.records(partition);
                long first = found.get(0).offset(), last = found.get(found.size() - 1).offset();
                line("took", partition.partition() + "," + first + "," + last);
            }
            if (hang > 0) {
                say("hangs", List.of());
                Thread.sleep(hang);
                hang = 0;
                say("goes on", List.of());
            }
        }
    }
}
