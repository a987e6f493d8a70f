import io.opensergo.ConfigKind;
import io.opensergo.OpenSergoClient;
import io.opensergo.proto.fault_tolerance.v1.RateLimitStrategy;
import io.opensergo.subscribe.SubscribeKey;
import java.util.List;
import java.util.stream.Collectors;

/** Prints each set of rate limits that the Java SDK gets: {@code Watch HOST PORT NAMESPACE APP}, until its input ends. */
class Watch {
    public static void main(String[] args) throws Exception {
        SubscribeKey key = new SubscribeKey(args[2], args[3], ConfigKind.RATE_LIMIT_STRATEGY);
        try (OpenSergoClient client = new OpenSergoClient(args[0], Integer.parseInt(args[1]))) {
            client.start();
            client.subscribeConfig(key, (of, data) -> print("handler", data));
            // The SDK asks before it registers the handler: what came in between is only in its cache.
            var cached = client.getConfigCache().getDataFor(key);
            if (cached != null) {
                print("cache", cached.getData());
            }
            while (System.in.read() >= 0) {}
        }
    }

    private static boolean print(String from, Object data) {
        List<?> rules = (List<?>) data;
        String text = rules.stream().map(RateLimitStrategy.class::cast)
            .map(rule -> rule.getName() + "=" + rule.getThreshold()).collect(Collectors.joining(" "));
        synchronized (System.out) {
            System.out.println(from + ": " + text);
        }
        return true;
    }
}
