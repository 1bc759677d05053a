// A web shop: orders, which are JSON in and out, and sessions, on the Unix socket that is named.
const sessions = new Map();

function answer(response, status, kind, text) {
  response.writeHead(status, { "Content-Type": kind, "Content-Length": Buffer.byteLength(text) });
  response.end(text);
}

function bill(text) {
  const { id, items } = JSON.parse(text);
  const lines = items.map(({ name, count, price }) => ({ name, sum: count * price }));
  return JSON.stringify({ id, total: lines.reduce((total, line) => total + line.sum, 0), lines });
}

function serve({ method, url }, text, response) {
  if (method === "POST") return answer(response, 200, "application/json", bill(text));
  const stored = sessions.get(url);
  if (method === "PUT") {
    sessions.set(url, text);
    return answer(response, 200, "text/plain", "stored");
  }
  if (stored === undefined) return answer(response, 404, "text/plain", "");
  if (method === "DELETE") sessions.delete(url);
  answer(response, 200, "text/plain", method === "DELETE" ? "removed" : stored);
}

const server = require("node:http").createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => serve(request, Buffer.concat(parts).toString(), response));
});
server.keepAliveTimeout = 600000;
server.listen(process.argv[2]);
