import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application that writes each record on, with how many of its key there were: of a
 * store that has a changelog. Arguments: topic, topic to write to, name=value options. It says its
 * state whenever that changes, and ends when its standard input does.
 */
public class CountingStreams {
    private static final String STORE = "counts";

    static class Counting implements FixedKeyProcessor<String, String, String> {
        private FixedKeyProcessorContext<String, String> context;
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(FixedKeyProcessorContext<String, String> given) {
            context = given;
            counts = given.getStateStore(STORE);
        }

        @Override
        public void process(FixedKeyRecord<String, String> record) {
            Long before = counts.get(record.key());
            long now = before == null ? 1 : before + 1;
            counts.put(record.key(), now);
            context.forward(record.withValue(record.value() + " " + now));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties options = new Properties();
        for (int n = 2; n < arguments.length; n++) {
            int at = arguments[n].indexOf('=');
            options.put(arguments[n].substring(0, at), arguments[n].substring(at + 1));
        }
        options.put("default.key.serde", Serdes.StringSerde.class.getName());
        options.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(
                Stores.keyValueStoreBuilder(
                        Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long()));
        builder.<String, String>stream(arguments[0])
                .processValues(Counting::new, STORE)
                .to(arguments[1], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), options);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(
                error -> {
                    error.printStackTrace();
                    return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse
                            .REPLACE_THREAD;
                });
        streams.start();
        while (System.in.read() >= 0) {
            // until whoever has begun it ends it
        }
        streams.close();
    }
}
