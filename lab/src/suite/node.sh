# Objects, maps, JSON, sorting and buffers, in JavaScript.
[ "$1" = run ] || exit 0
exec "$PROGRAM" - <<'END'
const guests = new Map();
for (let n = 0; n < 60000; n++) guests.set(`guest-${n}`, { seat: n % 97, likes: [n % 7, "soup".repeat(n % 5)] });
const text = JSON.stringify([...guests]);
console.log(text.length, new Map(JSON.parse(text)).size);
const order = [...guests.keys()].sort((a, b) => guests.get(a).seat - guests.get(b).seat || (a < b ? -1 : 1));
console.log(order.slice(0, 3), text.match(/"seat":7\d/g).length);
let bytes = [];
for (let n = 0; n < 30000; n++) bytes[n % 500] = Buffer.alloc(64 + (n * 37) % 9000, n % 256);
console.log(bytes.reduce((sum, buffer) => sum + buffer[buffer.length - 1] + buffer.length, 0));
END
