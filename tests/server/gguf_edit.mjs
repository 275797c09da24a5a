// Copies a GGUF model with keys of other values, and with control tokens in place of its last tokens.
import { readFileSync, writeFileSync } from "node:fs";

const SIZES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const U32 = 4, F32 = 6, STRING = 8, ARRAY = 9, CONTROL = 3;

const u32 = (value) => {
    const b = Buffer.alloc(4);
    b.writeUInt32LE(value);
    return b;
};
const u64 = (value) => {
    const b = Buffer.alloc(8);
    b.writeBigUInt64LE(BigInt(value));
    return b;
};
const f32 = (value) => {
    const b = Buffer.alloc(4);
    b.writeFloatLE(value);
    return b;
};
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

class Reader {
    at = 0;
    constructor(bytes) {
        this.bytes = bytes;
    }
    u32() {
        return this.bytes.readUInt32LE((this.at += 4) - 4);
    }
    u64() {
        return Number(this.bytes.readBigUInt64LE((this.at += 8) - 8));
    }
    text() {
        const length = this.u64();
        return this.bytes.toString("utf8", this.at, (this.at += length));
    }
    skip(type) {
        if (type === STRING) this.text();
        else if (type === ARRAY) for (let kind = this.u32(), n = this.u64(); n > 0; n--) this.skip(kind);
        else this.at += SIZES[type];
    }
}

// The value of a key with the last of its strings, or numbers, replaced.
function replaceLast(value, replacements) {
    const reader = new Reader(value);
    const kind = reader.u32(), n = reader.u64(), items = [];
    for (let i = 0; i < n; i++) {
        const from = reader.at;
        reader.skip(kind);
        items.push(value.subarray(from, reader.at));
    }
    return Buffer.concat([u32(kind), u64(n), ...items.slice(0, n - replacements.length), ...replacements]);
}

// Texts, whole numbers, and { real: x }.
function encode(value) {
    if (typeof value === "string") return { type: STRING, value: text(value) };
    return typeof value === "number" ? { type: U32, value: u32(value) } : { type: F32, value: f32(value.real) };
}

// Writes `to` as `from` is, but for the keys of `set` and, from the end of its vocabulary, tokens of the names in `controls`.
export function editGguf(from, to, set, controls = []) {
    const reader = new Reader(readFileSync(from));
    const head = reader.bytes.subarray(0, 8), keys = [];
    reader.at = 8;
    const nTensors = reader.u64(), nKeys = reader.u64();
    for (let i = 0; i < nKeys; i++) {
        const name = reader.text(), type = reader.u32(), start = reader.at;
        reader.skip(type);
        keys.push({ name, type, value: reader.bytes.subarray(start, reader.at) });
    }
    const infos = reader.at;
    for (let i = 0; i < nTensors; i++) {
        reader.text();
        for (let n = reader.u32(); n > 0; n--) reader.u64();
        reader.u32();
        reader.u64();
    }
    const alignment = keys.find(({ name }) => name === "general.alignment")?.value.readUInt32LE(0) ?? 32;
    const up = (n) => Math.ceil(n / alignment) * alignment;
    const kept = keys.filter(({ name }) => !(name in set)).map(({ name, type, value }) => {
        if (controls.length && name === "tokenizer.ggml.tokens") value = replaceLast(value, controls.map(text));
        if (controls.length && name === "tokenizer.ggml.token_type") value = replaceLast(value, controls.map(() => u32(CONTROL)));
        return { name, type, value };
    });
    for (const [name, value] of Object.entries(set)) kept.push({ name, ...encode(value) });
    const front = Buffer.concat([head, u64(nTensors), u64(kept.length), ...kept.flatMap(({ name, type, value }) => [text(name), u32(type), value]), reader.bytes.subarray(infos, reader.at)]);
    writeFileSync(to, Buffer.concat([front, Buffer.alloc(up(front.length) - front.length), reader.bytes.subarray(up(reader.at))]));
    return to;
}
