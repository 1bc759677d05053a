# python3 with PYTHONMALLOC=malloc: objects, threads, subprocesses, multiprocessing, compression, ctypes.
export PYTHONMALLOC=malloc PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1

cat > work.py <<'END'
import collections, ctypes, hashlib, multiprocessing, random, sqlite3, subprocess, sys, threading, zlib
from concurrent.futures import ThreadPoolExecutor

def objects(seed):
    source = random.Random(seed)
    table = collections.OrderedDict()
    for i in range(20000):
        table[source.randrange(5000)] = [str(i)] * source.randrange(20)
        if i % 3 == 0:
            table.popitem(last=False)
    return hashlib.sha256(repr(table).encode()).hexdigest()

def main():
    with ThreadPoolExecutor(8) as pool:
        print(list(pool.map(objects, range(8))))
    data = random.Random(1).randbytes(300000) + b"a" * 300000
    print(len(zlib.compress(data)))
    for method in "fork", "spawn":
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(pool.map(objects, range(4)))
    for i in range(20):
        subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)
    threads = [threading.Thread(target=objects, args=(i,)) for i in range(20)]
    [thread.start() for thread in threads]
    subprocess.run(["/bin/echo", "from a subprocess"], check=True)
    [thread.join() for thread in threads]
    database = sqlite3.connect(":memory:")
    database.execute("create table t (a, b)")
    database.executemany("insert into t values (?, ?)", ((i, str(i) * 10) for i in range(10000)))
    print(database.execute("select sum(a), max(length(b)) from t where b like '%99%'").fetchone())
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free(ctypes.c_void_p(libc.malloc(100)))
    big = bytearray(50_000_000)
    big.extend(bytes(50_000_000))
    print(len(big), 3 ** 20000 % 1000007)

if __name__ == "__main__":
    main()
END
/usr/bin/python3 work.py
/usr/bin/python3 -c 'raise SystemExit(5)' || echo "status $?"
