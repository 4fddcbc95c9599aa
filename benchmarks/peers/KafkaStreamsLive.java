import java.time.Duration;
import java.util.Properties;
import java.util.function.Function;
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
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * One continuous query in Kafka Streams: QUERY SERVERS TOPIC OUTPUT FOLDER.
 *
 * <p>It writes exactly once to the topic OUTPUT. The field `known` of a row is the time of its last input, in
 * milliseconds.
 */
public final class KafkaStreamsLive {
    record Sums(long views, long newest) {}

    record Counted(long known, String page, long start, long views) {}

    record Enriched(long known, String page, String user, long ms, String plan) {}

    record Pair(long known, String id, long ts, long click_ts) {}

    private static final Duration LATENESS = Duration.ofSeconds(2);
    private static final Duration WITHIN = Duration.ofSeconds(5);
    private static final TimeWindows WINDOWS = TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), LATENESS);
    // The default of Kafka Streams for exactly-once processing.
    private static final int COMMIT_MS = 100;

    private final StreamsBuilder builder = new StreamsBuilder();
    private final String topic;
    private final String output;

    private KafkaStreamsLive(String topic, String output) {
        this.topic = topic;
        this.output = output;
    }

    public static void main(String[] given) {
        KafkaStreamsLive live = new KafkaStreamsLive(given[2], given[3]);
        live.build(given[0]);
        Properties settings = KafkaStreamsPeer.settings(given[1], given[3], given[4]);
        settings.put("commit.interval.ms", COMMIT_MS);
        KafkaStreams streams = new KafkaStreams(live.builder.build(), settings);
        streams.setUncaughtExceptionHandler(fault -> {
            fault.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }

    private void build(String query) {
        switch (query) {
            case "enrichment" -> enrichment();
            case "updates" -> counted(windows(), (window, sums) -> sums.newest);
            case "final windows" -> counted(
                    windows().suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded())),
                    (window, sums) -> window.window().end() + LATENESS.toMillis());
            case "join" -> join();
            default -> throw new IllegalArgumentException(query);
        }
    }

    private interface Known {
        long of(Windowed<String> window, Sums sums);
    }

    private KTable<Windowed<String>, Sums> windows() {
        return keyed(topic, KafkaStreamsPeer.Event::page)
                .groupByKey()
                .windowedBy(WINDOWS)
                .aggregate(() -> new Sums(0, 0),
                        (page, event, sums) -> new Sums(sums.views + 1, Math.max(sums.newest, event.ts())),
                        Materialized.with(Serdes.String(), serde(Sums.class)));
    }

    private void counted(KTable<Windowed<String>, Sums> windows, Known known) {
        windows.toStream()
                .map((window, sums) -> KeyValue.pair(window.key(), new Counted(
                        known.of(window, sums), window.key(), window.window().start(), sums.views)))
                .to(output, Produced.with(Serdes.String(), serde(Counted.class)));
    }

    private void enrichment() {
        GlobalKTable<String, KafkaStreamsPeer.Event> profiles = builder.globalTable("profiles",
                Consumed.with(Serdes.String(), KafkaStreamsPeer.EVENT));
        read(topic)
                .leftJoin(profiles, (none, click) -> click.user(), (click, profile) -> new Enriched(
                        click.ts(), click.page(), click.user(), click.ms(), profile == null ? null : profile.plan()))
                .to(output, Produced.with(Serdes.ByteArray(), serde(Enriched.class)));
    }

    private void join() {
        JoinWindows within = JoinWindows.ofTimeDifferenceAndGrace(WITHIN, LATENESS).before(Duration.ZERO);
        keyed(topic + "-impressions", KafkaStreamsPeer.Event::id)
                .join(keyed(topic + "-clicks", KafkaStreamsPeer.Event::id),
                        (seen, click) -> new Pair(Math.max(seen.ts(), click.ts()), seen.id(), seen.ts(), click.ts()),
                        within,
                        StreamJoined.with(Serdes.String(), KafkaStreamsPeer.EVENT, KafkaStreamsPeer.EVENT))
                .to(output, Produced.with(Serdes.String(), serde(Pair.class)));
    }

    private KStream<byte[], KafkaStreamsPeer.Event> read(String name) {
        return builder.stream(name, Consumed.with(Serdes.ByteArray(), KafkaStreamsPeer.EVENT)
                .withTimestampExtractor(KafkaStreamsPeer.TIME));
    }

    private KStream<String, KafkaStreamsPeer.Event> keyed(
            String name, Function<KafkaStreamsPeer.Event, String> key) {
        Repartitioned<String, KafkaStreamsPeer.Event> by =
                Repartitioned.with(Serdes.String(), KafkaStreamsPeer.EVENT);
        return read(name).selectKey((none, event) -> key.apply(event)).repartition(by.withName(name));
    }

    private static <T> Serde<T> serde(Class<T> type) {
        return KafkaStreamsPeer.json(KafkaStreamsPeer.JSON, type);
    }
}
