import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Runs kafka-consumer-groups.sh, and calls of Java's admin client, one after the other within one
 * virtual machine. A command is a line on standard input, its words separated by the character 31;
 * what it says on both streams is followed by a line of the character 30. Where the first word is
 * "admin", the others are the bootstrap servers, a group, a topic and a call.
 */
public class Tools {
    private static class Ended extends RuntimeException {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure(
                (status, message) -> {
                    System.out.println("exit status " + status);
                    throw new Ended();
                });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            String[] words = line.split("\u001f");
            try {
                if (words[0].equals("admin")) {
                    admin(words[1], words[2], words[3], words[4]);
                } else {
                    ConsumerGroupCommand.main(words);
                }
            } catch (Ended expected) {
                // it has said so
            } catch (Throwable error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                System.out.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            answers.print(said.toString(StandardCharsets.UTF_8));
            answers.println("\n\u001e");
            answers.flush();
        }
    }

    private static void show(String name, Object value) {
        System.out.println(name + "=" + value);
    }

    private static void admin(String servers, String group, String topic, String call)
            throws Exception {
        TopicPartition first = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            switch (call) {
                case "list":
                    for (ConsumerGroupListing one : admin.listConsumerGroups().all().get()) {
                        if (one.groupId().equals(group)) {
                            show("simple", one.isSimpleConsumerGroup());
                            show("state", one.state());
                            show("type", one.type());
                        }
                    }
                    break;
                case "describe":
                    describe(admin, group);
                    break;
                case "offsets":
                    Map<TopicPartition, OffsetAndMetadata> found =
                            admin.listConsumerGroupOffsets(group)
                                    .partitionsToOffsetAndMetadata()
                                    .get();
                    new TreeMap<>(
                                    found.entrySet().stream()
                                            .collect(
                                                    Collectors.toMap(
                                                            e -> e.getKey().toString(),
                                                            e -> String.valueOf(e.getValue()))))
                            .forEach(Tools::show);
                    break;
                case "alter":
                    admin.alterConsumerGroupOffsets(
                                    group, Map.of(first, new OffsetAndMetadata(4, "why")))
                            .all()
                            .get();
                    show("altered", true);
                    break;
                case "delete offsets":
                    admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
                    show("deleted", true);
                    break;
                case "delete":
                    admin.deleteConsumerGroups(List.of(group)).all().get();
                    show("deleted", true);
                    break;
                default:
                    throw new IllegalArgumentException(call);
            }
        }
    }

    private static void describe(Admin admin, String group) throws Exception {
        DescribeConsumerGroupsOptions options =
                new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
        ConsumerGroupDescription found =
                admin.describeConsumerGroups(List.of(group), options).all().get().get(group);
        show("simple", found.isSimpleConsumerGroup());
        show("state", found.state());
        show("type", found.type());
        show("assignor", found.partitionAssignor());
        show("coordinator", found.coordinator());
        show(
                "operations",
                found.authorizedOperations() == null
                        ? null
                        : found.authorizedOperations().stream().sorted().collect(Collectors.toList()));
        MemberDescription[] members = found.members().toArray(new MemberDescription[0]);
        Arrays.sort(members, (a, b) -> a.clientId().compareTo(b.clientId()));
        for (MemberDescription one : members) {
            String name = one.clientId() + " ";
            show(name + "id", one.consumerId());
            show(name + "instance", one.groupInstanceId());
            show(name + "host", one.host());
            show(
                    name + "assignment",
                    one.assignment().topicPartitions().stream()
                            .map(TopicPartition::toString)
                            .sorted()
                            .collect(Collectors.toList()));
            show(name + "target", one.targetAssignment());
        }
    }
}
