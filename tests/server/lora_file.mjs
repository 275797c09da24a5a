// Writes small adapters for a suite: a GGUF LoRA file as llama.cpp's converter makes them, and a PEFT folder, with numbers drawn from a seed.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { program } from "./server.mjs";

const ALIGN = 32;
const F32 = 0;

function random(seed) {
    let state = seed >>> 0 || 1;
    return () => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return (state >>> 0) / 2 ** 32 - 0.5;
    };
}

class Bytes {
    parts = [];
    size = 0;
    add(buffer) {
        this.parts.push(buffer);
        this.size += buffer.length;
    }
    u32(value) {
        const b = Buffer.alloc(4);
        b.writeUInt32LE(value);
        this.add(b);
    }
    u64(value) {
        const b = Buffer.alloc(8);
        b.writeBigUInt64LE(BigInt(value));
        this.add(b);
    }
    f32(value) {
        const b = Buffer.alloc(4);
        b.writeFloatLE(value);
        this.add(b);
    }
    text(value) {
        this.u64(Buffer.byteLength(value));
        this.add(Buffer.from(value));
    }
    pad() {
        this.add(Buffer.alloc((ALIGN - (this.size % ALIGN)) % ALIGN));
    }
    all() {
        return Buffer.concat(this.parts);
    }
}

// The matrices of a model's layers by name, with their widths.
export function matricesOf(model) {
    const { file } = JSON.parse(execFileSync(program, ["info", model, "--tensors", "--json"], { encoding: "utf8", maxBuffer: 1 << 26 }));
    return file.tensors.filter(({ name }) => /^blk\.\d+\.(attn_[qkv]|attn_output|ffn_(gate|up|down))\.weight$/.test(name))
        .map(({ name, shape }) => ({ name, nIn: shape[0], nOut: shape[1] }));
}

// Changes every matrix that `pick` chooses by scale * B A with entries around `size`.
export function writeLora(path, model, { seed = 1, rank = 2, alpha = rank, size = 0.5, pick = () => true, architecture = "llama" } = {}) {
    const draw = random(seed);
    const tensors = matricesOf(model).filter(({ name }) => pick(name)).flatMap(({ name, nIn, nOut }) => [
        { name: `${name}.lora_a`, shape: [nIn, rank] },
        { name: `${name}.lora_b`, shape: [rank, nOut] },
    ]);
    const head = new Bytes();
    head.add(Buffer.from("GGUF"));
    head.u32(3);
    head.u64(tensors.length);
    head.u64(4);
    for (const [key, value] of [["general.type", "adapter"], ["general.architecture", architecture], ["adapter.type", "lora"]]) {
        head.text(key);
        head.u32(8);
        head.text(value);
    }
    head.text("adapter.lora.alpha");
    head.u32(6);
    head.f32(alpha);
    let offset = 0;
    for (const tensor of tensors) {
        const bytes = tensor.shape[0] * tensor.shape[1] * 4;
        head.text(tensor.name);
        head.u32(2);
        tensor.shape.forEach((n) => head.u64(n));
        head.u32(F32);
        head.u64(offset);
        offset += Math.ceil(bytes / ALIGN) * ALIGN;
    }
    head.pad();
    for (const { shape } of tensors) {
        const numbers = Float32Array.from({ length: shape[0] * shape[1] }, () => draw() * 2 * size);
        head.add(Buffer.from(numbers.buffer));
        head.pad();
    }
    writeFileSync(path, head.all());
    return path;
}

// A PEFT folder that changes q_proj of every layer.
export function writePeft(folder, model, { seed = 1, rank = 2, size = 0.5 } = {}) {
    const draw = random(seed);
    const header = {};
    const data = [];
    let offset = 0;
    const put = (name, shape) => {
        const numbers = Float32Array.from({ length: shape[0] * shape[1] }, () => draw() * 2 * size);
        header[name] = { dtype: "F32", shape, data_offsets: [offset, offset + numbers.byteLength] };
        offset += numbers.byteLength;
        data.push(Buffer.from(numbers.buffer));
    };
    for (const { name, nIn, nOut } of matricesOf(model).filter(({ name }) => name.includes(".attn_q."))) {
        const prefix = `base_model.model.model.layers.${name.split(".")[1]}.self_attn.q_proj`;
        put(`${prefix}.lora_A.weight`, [rank, nIn]);
        put(`${prefix}.lora_B.weight`, [nOut, rank]);
    }
    let text = JSON.stringify(header);
    text += " ".repeat((8 - (text.length % 8)) % 8);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "adapter_model.safetensors"), Buffer.concat([length, Buffer.from(text), ...data]));
    writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ peft_type: "LORA", task_type: "CAUSAL_LM", r: rank, lora_alpha: rank, target_modules: ["q_proj"], bias: "none", fan_in_fan_out: false, use_rslora: false, use_dora: false }));
    return folder;
}
