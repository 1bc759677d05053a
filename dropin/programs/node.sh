# node: worker threads with messages and shared memory, buffers, child processes, compression, garbage.
set -eu

cat > work.js <<'END'
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');
const { execFileSync } = require('child_process');

function work(seed) {
  let state = seed + 1;
  const random = () => (state = (state * 1103515245 + 12345) % 2147483648);
  const map = new Map();
  for (let i = 0; i < 50000; i++) {
    map.set(random() % 5000, Buffer.alloc(random() % 300, i & 255));
    if (i % 3 === 0) map.delete(random() % 5000);
  }
  const hash = crypto.createHash('sha256');
  for (const key of [...map.keys()].sort((a, b) => a - b)) hash.update(map.get(key));
  return hash.digest('hex').slice(0, 16);
}

function inWorker(seed, shared) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { seed, shared } });
    let answer;
    worker.on('message', (message) => { answer = message; });
    worker.on('error', reject);
    worker.on('exit', (status) => (status === 0 ? resolve(answer) : reject(new Error(`status ${status}`))));
  });
}

async function main() {
  const shared = new SharedArrayBuffer(4);
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all([1, 2, 3, 4].map((seed) => inWorker(seed, shared)));
    for (const { digest, big } of answers) console.log(digest, big.length);
  }
  console.log('shared counter', new Int32Array(shared)[0]);
  const data = Buffer.from('commensal '.repeat(200000));
  const packed = zlib.gzipSync(data, { level: 9 });
  console.log(packed.length, zlib.gunzipSync(packed).equals(data));
  console.log(execFileSync('/bin/echo', ['from a child']).toString().trim());
  console.log(work(9), JSON.stringify(Array.from({ length: 50000 }, (_, i) => ({ i }))).length);
}

if (isMainThread) {
  main().catch((error) => { console.error(error); process.exit(1); });
} else {
  const counter = new Int32Array(workerData.shared);
  for (let i = 0; i < 1000; i++) Atomics.add(counter, 0, 1);
  parentPort.postMessage({ digest: work(workerData.seed), big: new Uint8Array(1 << 20) });
}
END
node work.js
node -e 'process.exit(6)' || echo "status $?"
echo 'all done'
