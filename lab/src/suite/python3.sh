# Dictionaries, JSON, sorting, regular expressions and threads; every object comes from malloc.
[ "$1" = run ] || exit 0
export PYTHONMALLOC=malloc PYTHONHASHSEED=0
exec "$PROGRAM" - <<'END'
import json, re, threading, zlib

guests = {f"guest-{i}": {"seat": i % 97, "likes": [i % 7, i % 11, "soup" * (i % 5)]} for i in range(25_000)}
text = json.dumps(guests)
print(len(text), zlib.crc32(text.encode()))
print(json.loads(text) == guests)

order = sorted(guests, key=lambda name: (guests[name]["seat"], name[::-1]))
print(order[:3], order[-3:])
print(len(re.findall(r'"seat": (\d)\d', text)))

sums = [0] * 4
def serve(table):
    sums[table] = sum(len(str(i) * 3) for i in range(table, 200_000, 4))
threads = [threading.Thread(target=serve, args=(table,)) for table in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sums)
END
