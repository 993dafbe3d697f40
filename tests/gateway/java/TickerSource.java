import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A connector of Kafka Connect with as many tasks as it may have. Each writes some records: its
 * number, a name that it draws when it starts, and when it wrote, in ms.
 */
public class TickerSource extends SourceConnector {
    private Map<String, String> options;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> given) {
        options = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Ticker.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> found = new ArrayList<>();
        for (int n = 0; n < most; n++) {
            Map<String, String> config = new HashMap<>(options);
            config.put("task", Integer.toString(n));
            found.add(config);
        }
        return found;
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    /** A task. */
    public static class Ticker extends SourceTask {
        private final String run = UUID.randomUUID().toString();
        private String topic;
        private String task;
        private long count;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> options) {
            topic = options.get("topic");
            task = options.get("task");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(100);
            count++;
            return List.of(
                    new SourceRecord(
                            Map.of("ticker", topic + task),
                            Map.of("count", count),
                            topic,
                            Schema.STRING_SCHEMA,
                            task + " " + run + " " + System.currentTimeMillis()));
        }

        @Override
        public void stop() {}
    }
}
