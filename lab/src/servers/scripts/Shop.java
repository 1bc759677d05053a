// A web shop: orders, which are JSON in and out, and sessions, on the port of the loopback interface that is named.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Shop {
    private static final Map<String, String> SESSIONS = new ConcurrentHashMap<>();
    private static final Pattern ID = Pattern.compile("\\{\"id\":(\\d+)");
    private static final Pattern ITEM = Pattern.compile("\\{\"name\":\"([^\"]*)\",\"count\":(\\d+),\"price\":(\\d+)\\}");

    public static void main(String[] words) throws IOException {
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/orders", exchange -> answer(exchange, 200, bill(text(exchange))));
        server.createContext("/sessions/", Shop::session);
        server.start();
    }

    private static void session(HttpExchange exchange) throws IOException {
        String name = exchange.getRequestURI().getPath();
        String stored = SESSIONS.get(name);
        switch (exchange.getRequestMethod()) {
            case "PUT":
                SESSIONS.put(name, text(exchange));
                answer(exchange, 200, "stored");
                break;
            case "DELETE":
                SESSIONS.remove(name);
                answer(exchange, stored == null ? 404 : 200, stored == null ? "" : "removed");
                break;
            default:
                answer(exchange, stored == null ? 404 : 200, stored == null ? "" : stored);
        }
    }

    private static String bill(String order) {
        Matcher id = ID.matcher(order);
        id.find();
        StringBuilder lines = new StringBuilder();
        long total = 0;
        for (Matcher item = ITEM.matcher(order); item.find(); ) {
            long sum = Long.parseLong(item.group(2)) * Long.parseLong(item.group(3));
            total += sum;
            lines.append(lines.length() == 0 ? "" : ",");
            lines.append("{\"name\":\"").append(item.group(1)).append("\",\"sum\":").append(sum).append('}');
        }
        return "{\"id\":" + id.group(1) + ",\"total\":" + total + ",\"lines\":[" + lines + "]}";
    }

    private static String text(HttpExchange exchange) throws IOException {
        return new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
    }

    private static void answer(HttpExchange exchange, int status, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        // -1 stands for an empty body, 0 for one of unknown length.
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        if (bytes.length > 0) {
            exchange.getResponseBody().write(bytes);
        }
        exchange.close();
    }
}
