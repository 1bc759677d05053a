# javac and java: compilation, threads, direct buffers and compression, which use malloc, and collections.
set -eu

cat > Work.java <<'END'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
    static long objects(long seed) {
        Random random = new Random(seed);
        Map<Integer, byte[]> map = new TreeMap<>();
        for (int i = 0; i < 100000; i++) {
            map.put(random.nextInt(5000), new byte[random.nextInt(200)]);
            if (i % 3 == 0) map.remove(random.nextInt(5000));
        }
        long sum = 0;
        for (Map.Entry<Integer, byte[]> entry : map.entrySet()) sum = sum * 31 + entry.getKey() + entry.getValue().length;
        return sum;
    }

    static long nativeMemory(int seed) {
        byte[] input = new byte[200000];
        Arrays.fill(input, (byte) seed);
        long total = 0;
        for (int i = 0; i < 30; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1000 * (i + 1));
            buffer.putInt(0, i);
            Deflater deflater = new Deflater(i % 9 + 1);
            deflater.setInput(input);
            deflater.finish();
            byte[] output = new byte[10000];
            total += deflater.deflate(output) + buffer.getInt(0);
            deflater.end();
        }
        return total;
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            final int seed = i;
            results.add(pool.submit(() -> objects(seed) + nativeMemory(seed)));
        }
        for (Future<Long> result : results) System.out.println(result.get());
        pool.shutdown();
        for (int round = 0; round < 2; round++) {
            Thread[] threads = new Thread[10];
            for (int i = 0; i < 10; i++) (threads[i] = new Thread(() -> objects(1))).start();
            for (Thread thread : threads) thread.join();
        }
        System.out.println(IntStream.range(0, 100000).parallel().mapToObj(Integer::toString).collect(Collectors.joining()).length());
        Process child = new ProcessBuilder("/bin/echo", "from a child").inheritIO().start();
        System.exit(child.waitFor() + 3);
    }
}
END
javac -J-Xmx256m Work.java
java -Xmx256m Work || echo "status $?"
find . -name '*.class' | sort
echo 'all done'
