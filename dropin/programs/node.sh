# node: worker threads with messages and shared memory, buffers, child processes, compression, garbage.

cat > work.js <<'END'
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');
const { execFileSync } = require('child_process');

function work(seed) {
  const map = new Map();
  for (let i = 0; i < 50000; i++) {
    map.set((i * seed) % 5000, Buffer.alloc((i * 7919) % 300, i & 255));
    if (i % 3 === 0) map.delete((i * 31) % 5000);
  }
  const hash = crypto.createHash('sha256');
  for (const buffer of map.values()) hash.update(buffer);
  return hash.digest('hex');
}

function inWorker(seed, shared) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { seed, shared } });
    worker.on('message', resolve);
    worker.on('error', reject);
  });
}

async function main() {
  const shared = new Int32Array(new SharedArrayBuffer(4));
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all([1, 2, 3, 4].map((seed) => inWorker(seed, shared)));
    for (const { digest, big } of answers) console.log(digest, big.length);
  }
  console.log('shared counter', shared[0]);
  const data = Buffer.from('commensal '.repeat(200000));
  const packed = zlib.gzipSync(data, { level: 9 });
  console.log(packed.length, zlib.gunzipSync(packed).equals(data));
  console.log(execFileSync('/bin/echo', ['from a child']).toString().trim());
}

if (isMainThread) {
  main().catch((error) => { console.error(error); process.exit(1); });
} else {
  for (let i = 0; i < 1000; i++) Atomics.add(workerData.shared, 0, 1);
  parentPort.postMessage({ digest: work(workerData.seed), big: new Uint8Array(1 << 20) });
}
END
node work.js
node -e 'process.exit(6)' || echo "status $?"
