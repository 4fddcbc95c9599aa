import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.text.NumberFormat;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.LongPoint;
import org.apache.lucene.document.TextField;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.RegexpQueryHandler;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.queryparser.flexible.standard.StandardQueryParser;
import org.apache.lucene.queryparser.flexible.standard.config.PointsConfig;

/**
 * Documents matched against stored queries in the monitor of Lucene: QUERIES DOCUMENTS WARM MATCHES.
 *
 * <p>QUERIES has lines of an id and a query, DOCUMENTS of an id, a price and a body, separated by tabs. WARM
 * documents are the warm-up. MATCHES gets a line with the ids of the document and the query for each match. The
 * program prints seconds, CPU seconds, and the peak memory in MiB.
 */
public final class LuceneMonitorPeer {
    private static final int THREADS = 2;
    private static final String BODY = "body";
    private static final String PRICE = "price";

    private final Monitor monitor;

    private LuceneMonitorPeer(Monitor monitor) {
        this.monitor = monitor;
    }

    public static void main(String[] given) throws Exception {
        List<String> documents = Files.readAllLines(Path.of(given[1]));
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        // Prefixes are regular expressions, which the monitor indexes by their longest literal.
        TermFilteredPresearcher first = new TermFilteredPresearcher(
                TermFilteredPresearcher.DEFAULT_WEIGHTOR, List.of(new RegexpQueryHandler()), Set.of());
        try (Monitor monitor = new Monitor(new StandardAnalyzer(), first)) {
            monitor.register(queries(Path.of(given[0])));
            LuceneMonitorPeer peer = new LuceneMonitorPeer(monitor);
            peer.matched(threads, documents.subList(0, Integer.parseInt(given[2])));
            OperatingSystemMXBean used = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
            long cpu = used.getProcessCpuTime();
            long began = System.nanoTime();
            List<String> found = peer.matched(threads, documents);
            double seconds = (System.nanoTime() - began) / 1e9;
            cpu = used.getProcessCpuTime() - cpu;
            Files.writeString(Path.of(given[3]), String.join("", found));
            System.out.printf(Locale.ROOT, "%f %f %f%n", seconds, cpu / 1e9, peakMib());
        } finally {
            threads.shutdown();
        }
    }

    private static List<MonitorQuery> queries(Path path) throws Exception {
        StandardQueryParser parser = new StandardQueryParser(new StandardAnalyzer());
        NumberFormat numbers = NumberFormat.getIntegerInstance(Locale.ROOT);
        parser.setPointsConfigMap(Map.of(PRICE, new PointsConfig(numbers, Long.class)));
        List<MonitorQuery> queries = new ArrayList<>();
        for (String line : Files.readAllLines(path)) {
            String[] parts = line.split("\t", 2);
            queries.add(new MonitorQuery(parts[0], parser.parse(parts[1], BODY)));
        }
        return queries;
    }

    private List<String> matched(ExecutorService threads, List<String> documents) throws Exception {
        List<Callable<String>> tasks = new ArrayList<>();
        for (String line : documents) {
            tasks.add(() -> matched(line));
        }
        List<String> found = new ArrayList<>();
        for (Future<String> one : threads.invokeAll(tasks)) {
            found.add(one.get());
        }
        return found;
    }

    private String matched(String line) throws IOException {
        String[] parts = line.split("\t", 3);
        Document document = new Document();
        document.add(new LongPoint(PRICE, Long.parseLong(parts[1])));
        document.add(new TextField(BODY, parts[2], Field.Store.NO));
        StringBuilder lines = new StringBuilder();
        for (QueryMatch match : monitor.match(document, QueryMatch.SIMPLE_MATCHER).getMatches()) {
            lines.append(parts[0]).append('\t').append(match.getQueryId()).append('\n');
        }
        return lines.toString();
    }

    private static double peakMib() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
            }
        }
        return 0;
    }
}
