import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.TimestampExtractor;

/**
 * One query in Kafka Streams, several times in one JVM: QUERY SERVERS LABEL RUNS TOLERANCE FOLDER.
 *
 * <p>It runs at most RUNS times, until two consecutive times agree within TOLERANCE. Each run has its own application
 * id and output topic, LABEL-NUMBER. It ends when the results of all records present at its start are committed.
 * FOLDER/LABEL.runs has the start and end of each run in milliseconds.
 */
public final class KafkaStreamsPeer {
    /** A record of any of the topics: fields that a topic does not have are absent. */
    record Event(long ts, String page, String user, String id, int position, long ms, String plan) {}

    record Sums(long views, long total_ms) {}

    record Users(HashSet<String> users) {}

    record Key(String key, long start, long end) {}

    record Counted(String key, long start, long end, long views, long total_ms) {}

    record Different(String key, long start, long users) {}

    record Enriched(long ts, String page, String user, long ms, String plan) {}

    record Pair(String id, long ts, long click_ts, int position, long ms) {}

    static final ObjectMapper JSON = new ObjectMapper()
            .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    // Absent fields take no space in intermediate topics.
    private static final ObjectMapper SLIM =
            JSON.copy().setDefaultPropertyInclusion(JsonInclude.Include.NON_DEFAULT);
    static final Serde<Event> EVENT = json(SLIM, Event.class);
    // Stream time is that of the furthest partition, and partitions of existing records are read at different
    // speeds: windows must stay open for more than the hour before the last record.
    private static final Duration GRACE = Duration.ofHours(2);
    private static final long WAIT_MS = 20;
    static final TimestampExtractor TIME = (read, before) -> ((Event) read.value()).ts();

    private final StreamsBuilder builder = new StreamsBuilder();
    private final LongAdder passed = new LongAdder();
    private final String output;

    private KafkaStreamsPeer(String output) {
        this.output = output;
    }

    public static void main(String[] given) throws Exception {
        double within = Double.parseDouble(given[4]);
        long before = Long.MAX_VALUE;
        for (int run = 0; run < Integer.parseInt(given[3]); run++) {
            String name = given[2] + "-" + run;
            KafkaStreamsPeer peer = new KafkaStreamsPeer(name);
            Collection<String> topics = peer.build(given[0]);
            long began = System.currentTimeMillis();
            peer.run(settings(given[1], name, given[5]), recordsOf(topics, given[1]));
            long ended = System.currentTimeMillis();
            Path marks = Path.of(given[5], given[2] + ".runs");
            String span = began + " " + ended + "\n";
            Files.writeString(marks, span, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            long took = ended - began;
            if (run > 0 && Math.abs(took - before) <= within * before) {
                break;
            }
            before = took;
        }
    }

    /** Build a query, and return the topics that it must read to their ends. */
    private Collection<String> build(String query) {
        Duration ten = Duration.ofSeconds(10);
        switch (query) {
            case "tumbling" -> sums(TimeWindows.ofSizeAndGrace(ten, GRACE));
            case "hopping" -> sums(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(60), GRACE).advanceBy(ten));
            case "session" -> sessions(Duration.ofSeconds(30));
            case "distinct" -> distinct(TimeWindows.ofSizeAndGrace(ten, GRACE));
            case "join" -> join(Duration.ofSeconds(60));
            case "enrichment" -> enrichment();
            default -> throw new IllegalArgumentException(query);
        }
        String[] pair = {"clicks-impressions", "clicks-clicks"};
        return query.equals("join") ? List.of(pair) : List.of("clicks");
    }

    private void sums(TimeWindows windows) {
        KTable<Windowed<String>, Sums> sums = keyed("clicks", Event::page)
                .groupByKey()
                .windowedBy(windows)
                .aggregate(() -> new Sums(0, 0), KafkaStreamsPeer::added,
                        Materialized.with(Serdes.String(), json(JSON, Sums.class)));
        write(sums, 0);
    }

    private void sessions(Duration gap) {
        KTable<Windowed<String>, Sums> sums = keyed("clicks", Event::user)
                .groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(gap, GRACE))
                .aggregate(() -> new Sums(0, 0), KafkaStreamsPeer::added,
                        (user, one, two) -> new Sums(one.views + two.views, one.total_ms + two.total_ms),
                        Materialized.with(Serdes.String(), json(JSON, Sums.class)));
        // A session of Kafka Streams ends with its last event.
        write(sums, gap.toMillis());
    }

    private static Sums added(String key, Event event, Sums before) {
        return new Sums(before.views + 1, before.total_ms + event.ms);
    }

    private void write(KTable<Windowed<String>, Sums> sums, long after) {
        sums.toStream()
                .map((window, sum) -> {
                    Key key = key(window, after);
                    return KeyValue.pair(key, sum == null ? null
                            : new Counted(key.key, key.start, key.end, sum.views, sum.total_ms));
                })
                .to(output, Produced.with(json(JSON, Key.class), json(JSON, Counted.class)));
    }

    private static Key key(Windowed<String> window, long after) {
        return new Key(window.key(), window.window().start(), window.window().end() + after);
    }

    private void distinct(TimeWindows windows) {
        keyed("clicks", Event::page)
                .groupByKey()
                .windowedBy(windows)
                .aggregate(() -> new Users(new HashSet<>()), (page, event, seen) -> {
                    seen.users.add(event.user);
                    return seen;
                }, Materialized.with(Serdes.String(), json(JSON, Users.class)))
                .toStream()
                .map((window, seen) -> {
                    Key key = key(window, 0);
                    return KeyValue.pair(key, new Different(key.key, key.start, seen.users.size()));
                })
                .to(output, Produced.with(json(JSON, Key.class), json(JSON, Different.class)));
    }

    private void join(Duration within) {
        KStream<String, Event> impressions = keyed("clicks-impressions", Event::id);
        KStream<String, Event> clicks = keyed("clicks-clicks", Event::id);
        JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(within, GRACE).before(Duration.ZERO);
        impressions
                .join(clicks, (seen, click) -> new Pair(seen.id, seen.ts, click.ts, click.position, click.ms),
                        window, StreamJoined.with(Serdes.String(), EVENT, EVENT))
                .to(output, Produced.with(Serdes.String(), json(JSON, Pair.class)));
    }

    private void enrichment() {
        GlobalKTable<String, Event> profiles = builder.globalTable("profiles",
                Consumed.with(Serdes.String(), EVENT));
        read("clicks")
                .peek((none, click) -> passed.increment())
                .leftJoin(profiles, (none, click) -> click.user, (click, profile) -> new Enriched(
                        click.ts, click.page, click.user, click.ms, profile == null ? null : profile.plan))
                .to(output, Produced.with(Serdes.ByteArray(), json(JSON, Enriched.class)));
    }

    private KStream<byte[], Event> read(String topic) {
        return builder.stream(topic, Consumed.with(Serdes.ByteArray(), EVENT).withTimestampExtractor(TIME));
    }

    /** Read a topic, repartitioned by a key; the records are counted after that. */
    private KStream<String, Event> keyed(String topic, Function<Event, String> key) {
        Repartitioned<String, Event> repartitioned = Repartitioned.with(Serdes.String(), EVENT);
        return read(topic)
                .selectKey((none, event) -> key.apply(event))
                .repartition(repartitioned.withName(topic))
                .peek((of, event) -> passed.increment());
    }

    private void run(Properties settings, long records) throws InterruptedException {
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(fault -> {
            fault.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (passed.sum() < records) {
            if (streams.state() == KafkaStreams.State.ERROR) {
                throw new IllegalStateException("the threads of Kafka Streams have ended");
            }
            Thread.sleep(WAIT_MS);
        }
        // Closing completes and commits pending work.
        streams.close();
    }

    static Properties settings(String servers, String name, String folder) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
                "application.id", name,
                "bootstrap.servers", servers,
                "state.dir", folder + "/" + name,
                "processing.guarantee", "exactly_once_v2",
                "num.stream.threads", 2,
                "commit.interval.ms", 2_000,
                "statestore.cache.max.bytes", 256L << 20,
                "max.poll.records", 10_000,
                "auto.offset.reset", "earliest"));
        settings.put("producer.batch.size", 1 << 20);
        settings.put("producer.buffer.memory", 64 << 20);
        return settings;
    }

    private static long recordsOf(Collection<String> topics, String servers) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            Collection<TopicPartition> partitions = topics.stream()
                    .flatMap(topic -> consumer.partitionsFor(topic).stream())
                    .map(part -> new TopicPartition(part.topic(), part.partition()))
                    .toList();
            return consumer.endOffsets(partitions).values().stream().mapToLong(Long::longValue).sum();
        }
    }

    static <T> Serde<T> json(ObjectMapper mapper, Class<T> type) {
        return Serdes.serdeFrom((topic, value) -> {
            try {
                return value == null ? null : mapper.writeValueAsBytes(value);
            } catch (IOException cause) {
                throw new UncheckedIOException(cause);
            }
        }, (topic, bytes) -> {
            try {
                return bytes == null ? null : mapper.readValue(bytes, type);
            } catch (IOException cause) {
                throw new UncheckedIOException(cause);
            }
        });
    }
}
