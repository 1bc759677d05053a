# javac and java: compilation, and threads with direct buffers and compression, which use malloc.

cat > Work.java <<'END'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
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
        for (int round = 0; round < 3; round++) {
            Thread[] threads = new Thread[10];
            for (int i = 0; i < 10; i++) (threads[i] = new Thread(() -> nativeMemory(1))).start();
            for (Thread thread : threads) thread.join();
        }
        System.out.println(IntStream.range(0, 100).parallel().mapToLong(Work::nativeMemory).sum());
        Process child = new ProcessBuilder("/bin/echo", "from a child").inheritIO().start();
        System.exit(child.waitFor() + 3);
    }
}
END
javac -J-Xmx256m Work.java
java -Xmx256m Work || echo "status $?"
