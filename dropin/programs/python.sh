# python3 with PYTHONMALLOC=malloc: objects, threads, subprocesses, multiprocessing, compression, ctypes.
set -eu
export PYTHONMALLOC=malloc PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1

cat > work.py <<'END'
import collections, ctypes, hashlib, json, multiprocessing, pickle, random, re, sqlite3, subprocess, sys
import threading, zlib
from concurrent.futures import ThreadPoolExecutor

random.seed(1)

def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]

def objects(seed):
    source = random.Random(seed)
    table = collections.OrderedDict()
    for i in range(20000):
        table[source.randrange(5000)] = [str(i)] * source.randrange(20)
        if i % 3 == 0:
            table.popitem(last=False)
    return digest(table)

def square(x):
    return sum(i * i for i in range(x))

def main():
    print(sum(len(str(i)) for i in range(10**5)))
    print(objects(1))
    with ThreadPoolExecutor(8) as pool:
        print(list(pool.map(objects, range(8))))
    value = {"list": list(range(1000)), "text": "x" * 100000, "nested": [{"a": [i]} for i in range(1000)]}
    print(digest(json.loads(json.dumps(value))), digest(pickle.loads(pickle.dumps(value))))
    data = random.randbytes(300000) + b"a" * 300000
    print(len(zlib.compress(data)), hashlib.md5(data).hexdigest())
    print(len(re.findall(r"(\d)(\d)\1", "".join(str(i) for i in range(20000)))))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(square, range(1000, 1010)))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(square, range(1000, 1004)))
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
    block = libc.malloc(100)
    libc.free(ctypes.c_void_p(block))
    big = bytearray(50_000_000)
    big.extend(bytes(50_000_000))
    print(len(big), 3 ** 20000 % 1000007)

if __name__ == "__main__":
    main()
END
/usr/bin/python3 work.py
/usr/bin/python3 -c 'raise SystemExit(5)' || echo "status $?"
echo 'all done'
