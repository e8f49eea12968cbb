// HMAC-SHA-256 (FIPS 180-4, RFC 2104) for pages opened as files, where browsers may withhold their own.
"use strict";
const updpCode = (() => {
  const primes = [], fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32) >>> 0;
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const K = primes.map((p) => fraction(Math.cbrt(p))), START = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
  const turn = (x, n) => (x >>> n) | (x << (32 - n));

  const sha256 = (bytes) => {
    const padded = new Uint8Array(((bytes.length + 8 >> 6) + 1) * 64), view = new DataView(padded.buffer);
    padded.set(bytes);
    padded[bytes.length] = 0x80;
    view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
    view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
    const state = [...START], w = new Uint32Array(64);
    for (let at = 0; at < padded.length; at += 64) {
      for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i);
      for (let i = 16; i < 64; i++) {
        const a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i++) {
        const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
        const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((v, i) => { state[i] = (state[i] + v) | 0; });
    }
    const out = new DataView(new ArrayBuffer(32));
    state.forEach((v, i) => out.setUint32(4 * i, v >>> 0));
    return new Uint8Array(out.buffer);
  };
  const joined = (a, b) => { const out = new Uint8Array(a.length + b.length); out.set(a); out.set(b, a.length); return out; };
  const hex = (bytes) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");

  // The code of a text under a secret of 32 bytes in hexadecimal.
  const code = (secret, text) => {
    const key = new Uint8Array(64);
    for (let i = 0; i < secret.length / 2; i++) key[i] = parseInt(secret.slice(2 * i, 2 * i + 2), 16);
    const inner = sha256(joined(key.map((b) => b ^ 0x36), new TextEncoder().encode(text)));
    return hex(sha256(joined(key.map((b) => b ^ 0x5c), inner)));
  };
  const statement = (a) => [a.item, a.film, a.findings.join(","), a.quality, a.origin, a.at, a.milliseconds].join("|");

  // The file of answers that a hospital reads back.
  const file = (study, answers) => {
    let chain = code(study.key, `updp-answers-1|${study.plan}|${study.reader}`);
    for (const answer of answers) chain = code(study.key, `${chain}|${statement(answer)}`);
    return { format: "updp-answers-1", plan: study.plan, reader: study.reader, simulated: study.simulated, answers, code: chain };
  };
  return { code, file };
})();
