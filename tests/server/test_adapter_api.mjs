// Adapters over the wire: named by model or field, loaded and unloaded while serving, kept apart by tenant, counted and witnessed.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { writeLora, writePeft } from "./lora_file.mjs";
import { createKey, eventually, failure, models, program, Server } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-adapters-"));
const adapters = join(folder, "adapters");
mkdirSync(join(adapters, "later"), { recursive: true });
writeLora(join(adapters, "pirate.gguf"), models.text, { seed: 1 });
writeLora(join(adapters, "poet.gguf"), models.text, { seed: 2, rank: 4 });
writePeft(join(adapters, "peft"), models.text, { seed: 3 });
writeFileSync(join(adapters, "broken.gguf"), readFileSync(join(adapters, "pirate.gguf")).subarray(0, 100));
writeLora(join(adapters, "butler.gguf"), models.chat, { seed: 4, size: 0.05 });
writeLora(join(adapters, "later", "one.gguf"), models.text, { seed: 10 });
writeLora(join(adapters, "later", "two.gguf"), models.text, { seed: 11 });
writeLora(join(folder, "outside.gguf"), models.text, { seed: 12 });
symlinkSync("../../outside.gguf", join(adapters, "later", "link.gguf"));

const key = (...args) => createKey(join(folder, "store.db"), ...args).key;

let server, acme, other, admin;
before(async () => {
    acme = key("--tenant", "acme");
    other = key("--tenant", "other");
    admin = key("--tenant", "operators", "--admin");
    server = await Server.start([`text=${models.text}`, `chat=${models.chat}`, "--adapters", adapters, "--adapter-cache", join(folder, "cache"), "--threads", "1"], { folder });
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

const bearer = (who) => ({ authorization: `Bearer ${who}` });
const get = (who, path) => server.fetch(path, { headers: bearer(who) });
const load = (who, body) => server.post("/v1/adapters", body, bearer(who));
const drop = (who, path) => server.fetch(`/v1/adapters/${path}`, { method: "DELETE", headers: bearer(who) });
const story = (who, more = {}) => server.client(who).completions.create({ model: "text", prompt: "Once upon a time", max_tokens: 16, temperature: 0, ...more });
const textOf = (reply) => reply.choices[0].text;
const listed = async (who, path = "/v1/adapters") => (await (await get(who, path)).json()).data;

describe("a request with an adapter", () => {
    it("names it behind the model, gets other words and its generation", async () => {
        const plain = await story(acme);
        assert.equal(plain.adapter_generation, undefined);
        assert.equal(plain.model, "text");
        const pirate = await story(acme, { model: "text:pirate" });
        assert.equal(pirate.adapter_generation, 1);
        assert.equal(pirate.model, "text:pirate");
        const poet = await story(acme, { model: "text:poet" });
        assert.notEqual(textOf(pirate), textOf(plain));
        assert.notEqual(textOf(poet), textOf(plain));
        assert.notEqual(textOf(poet), textOf(pirate));
        assert.equal(textOf(await story(acme)), textOf(plain));
        assert.ok(textOf(await story(acme, { model: "text:peft" })));
    });

    it("names it in a field, alone or with weights", async () => {
        const pirate = textOf(await story(acme, { model: "text:pirate" }));
        assert.equal(textOf(await story(acme, { adapter: "pirate" })), pirate);
        assert.equal(textOf(await story(acme, { adapter: [{ id: "pirate" }] })), pirate);
        assert.equal(textOf(await story(acme, { adapter: [{ id: "pirate", weight: 0 }] })), textOf(await story(acme)));
        const mixed = await story(acme, { adapter: [{ id: "pirate", weight: 0.5 }, { id: "poet", weight: 0.5 }] });
        assert.equal(mixed.adapter_generation, 1);
        assert.ok(textOf(mixed));
    });

    it("streams it, and every chunk of the end says the generation", async () => {
        const whole = await story(acme, { model: "text:pirate" });
        const chunks = [];
        for await (const chunk of await story(acme, { model: "text:pirate", stream: true, stream_options: { include_usage: true } })) chunks.push(chunk);
        assert.equal(chunks.flatMap(({ choices }) => choices).map(({ text }) => text).join(""), textOf(whole));
        assert.equal(chunks.at(-1).adapter_generation, 1);
        assert.ok(chunks.every(({ model }) => model === "text:pirate"));
    });

    it("is a 404 when it is not there, in any spelling", async () => {
        for (const more of [{ model: "text:nobody" }, { adapter: "nobody" }, { model: "text:other/x" }, { adapter: "other/x" }, { model: "text:../pirate" }, { model: "text:pirate:pirate" }])
            assert.ok(["adapter_not_found", "model_not_found"].includes((await failure(story(acme, more), 404)).code), JSON.stringify(more));
        assert.equal((await failure(story(acme, { model: "text:pirate", adapter: "pirate" }), 400)).param, "adapter");
        assert.equal((await failure(story(acme, { adapter: [{ id: "pirate", weight: 9 }] }), 400)).param, "adapter[0].weight");
    });

    it("runs a mix at once, each answer as it would be alone", async () => {
        const wishes = [{}, { model: "text:pirate" }, { model: "text:poet" }, { model: "text:peft" }];
        const alone = [];
        for (const wish of wishes) alone.push(textOf(await story(acme, wish)));
        const together = await Promise.all([...wishes, ...wishes].map((wish) => story(acme, wish)));
        together.forEach((reply, i) => assert.equal(textOf(reply), alone[i % wishes.length]));
    });
});

describe("the folder of --adapters", () => {
    it("is loaded at start, and what is broken is left out and said", async () => {
        const ids = (await listed(acme)).map(({ id }) => id);
        assert.deepEqual([...ids].sort(), ["peft", "pirate", "poet"]);
        assert.ok(server.log().some(({ message }) => /'broken.gguf' is left out/.test(message ?? "")));
    });

    it("is told as models with a parent", async () => {
        const list = await server.client(acme).models.list();
        const pirate = list.data.find(({ id }) => id === "text:pirate");
        assert.equal(pirate.parent, "text");
        assert.equal(list.data.filter(({ id }) => id === "text").length, 1);
        assert.equal((await server.client(acme).models.retrieve("text:poet")).parent, "text");
        await failure(server.client(acme).models.retrieve("text:nobody"), 404);
    });
});

describe("/v1/adapters", () => {
    it("tells what each generation is", async () => {
        const [pirate] = await listed(acme, "/v1/adapters/pirate");
        assert.equal(pirate.model, "text");
        assert.equal(pirate.generation, 1);
        assert.equal(pirate.rank, 2);
        assert.ok(pirate.pairs > 0 && pirate.norm > 0 && pirate.bytes > 0);
        assert.match(pirate.hash, /^[0-9a-f]{64}$/);
        assert.equal(pirate.changes_layers, true);
    });

    it("is loaded by admins only, and only from the folder", async () => {
        assert.equal((await load(acme, { id: "acme/x", path: "later/one.gguf" })).status, 403);
        assert.equal((await drop(acme, "pirate")).status, 403);
        for (const path of ["/etc/passwd", "../outside.gguf", join(folder, "outside.gguf"), "later/link.gguf", "..", "."]) {
            const reply = await load(admin, { id: "x", path });
            assert.equal(reply.status, 403, path);
            assert.equal((await reply.json()).error.code, "path_not_allowed");
        }
        assert.equal((await load(admin, { id: "x", path: "later/none.gguf" })).status, 404);
        const broken = await load(admin, { id: "x", path: "broken.gguf" });
        assert.equal(broken.status, 400);
        assert.ok(!(await broken.json()).error.message.includes(folder));
        assert.equal((await load(admin, { id: "x/y/z", path: "later/one.gguf" })).status, 400);
        assert.equal((await load(admin, { id: "x", path: "later/one.gguf", model: "nobody" })).status, 404);
    });

    it("publishes generations by compare and swap, and requests get the newest", async () => {
        const first = await (await load(admin, { id: "acme/mine", path: "later/one.gguf", expected: 0 })).json();
        assert.equal(first.generation, 1);
        const one = await story(acme, { model: "text:acme/mine" });
        assert.equal(one.adapter_generation, 1);
        const late = await load(admin, { id: "acme/mine", path: "later/two.gguf", expected: 0 });
        assert.equal(late.status, 409);
        const second = await (await load(admin, { id: "acme/mine", path: "later/two.gguf", expected: 1 })).json();
        assert.equal(second.generation, 2);
        assert.notEqual(second.hash, first.hash);
        const two = await story(acme, { model: "text:acme/mine" });
        assert.equal(two.adapter_generation, 2);
        assert.notEqual(textOf(two), textOf(one));
        assert.deepEqual((await listed(acme, "/v1/adapters/acme%2Fmine")).map(({ generation }) => generation).sort(), [1, 2]);
        const { norm } = await (await get(acme, "/v1/adapters/acme%2Fmine/diff?from=1&to=2")).json();
        assert.ok(norm > 0);
        assert.equal((await (await get(acme, "/v1/adapters/acme%2Fmine/diff?from=2&to=2")).json()).norm, 0);
        assert.equal((await get(acme, "/v1/adapters/acme%2Fmine/diff?from=1&to=7")).status, 404);
        assert.equal((await get(acme, "/v1/adapters/acme%2Fmine/diff?from=1")).status, 400);
        assert.equal((await get(acme, "/v1/adapters/acme%2Fmine/diff?from=1&to=2&x=1")).status, 400);
    });

    it("shows a tenant its own and shared ones, and nothing of others", async () => {
        const seen = async (who) => (await listed(who)).map(({ id }) => id);
        assert.ok((await seen(acme)).includes("acme/mine"));
        assert.ok((await seen(admin)).includes("acme/mine"));
        assert.ok(!(await seen(other)).some((id) => id.startsWith("acme/")));
        assert.ok(!(await server.client(other).models.list()).data.some(({ id }) => id.includes("acme/")));
        assert.ok((await server.client(acme).models.list()).data.some(({ id }) => id === "text:acme/mine"));
        for (const path of ["acme%2Fmine", "acme%2Fmine/export", "acme%2Fmine/diff?from=1&to=2"]) {
            const reply = await get(other, `/v1/adapters/${path}`);
            assert.equal(reply.status, 404, path);
            assert.equal((await reply.json()).error.code, "adapter_not_found");
        }
        await failure(story(other, { model: "text:acme/mine" }), 404);
        await failure(story(admin, { adapter: "acme/mine" }), 404); // seeing is not using
    });

    it("exports what was loaded, in two formats, and it loads again", async () => {
        for (const format of ["own", "gguf"]) {
            const reply = await get(acme, `/v1/adapters/acme%2Fmine/export?generation=1&format=${format}`);
            assert.equal(reply.status, 200);
            assert.equal(reply.headers.get("content-type"), "application/octet-stream");
            const bytes = Buffer.from(await reply.arrayBuffer());
            assert.equal(bytes.subarray(0, 4).toString(), "GGUF");
            writeFileSync(join(adapters, "later", `again-${format}.gguf`), bytes);
            const again = await (await load(admin, { id: `again-${format}`, path: `later/again-${format}.gguf` })).json();
            assert.equal(again.generation, 1);
            assert.equal(textOf(await story(acme, { adapter: `again-${format}` })), textOf(await story(acme, { model: "text:again-own" })));
        }
        assert.equal((await get(acme, "/v1/adapters/acme%2Fmine/export?format=peft")).status, 400);
        assert.equal((await get(acme, "/v1/adapters/acme%2Fmine/export?generation=9")).status, 404);
    });

    it("unloads one generation or all, and what is gone is a 404", async () => {
        assert.deepEqual(await (await drop(admin, "acme%2Fmine?generation=1")).json(), { id: "acme/mine", object: "adapter.deleted", deleted: true });
        assert.equal((await story(acme, { model: "text:acme/mine" })).adapter_generation, 2);
        assert.equal((await drop(admin, "acme%2Fmine")).status, 200);
        await failure(story(acme, { model: "text:acme/mine" }), 404);
        assert.equal((await get(acme, "/v1/adapters/acme%2Fmine")).status, 404);
        assert.equal((await drop(admin, "acme%2Fmine")).status, 404);
    });
});

describe("a model of its own adapters", () => {
    const chat = (more = {}) => server.client(acme).chat.completions.create({ model: "chat:butler", messages: [{ role: "user", content: "Hello, who are you?" }], max_tokens: 40, temperature: 0, ...more });

    it("gets those that fit it when it is loaded, and the others are said to be left out", async () => {
        const butler = await chat();
        assert.equal(butler.adapter_generation, 1);
        assert.notEqual(butler.choices[0].message.content, (await chat({ model: "chat" })).choices[0].message.content);
        await failure(chat({ model: "chat:pirate" }), 404);
        await failure(story(acme, { model: "text:butler" }), 404);
        assert.ok(server.log().some(({ message }) => /'butler.gguf' is left out of model 'text'/.test(message ?? "")));
        assert.ok(server.log().some(({ message }) => /'pirate.gguf' is left out of model 'chat'/.test(message ?? "")));
        assert.deepEqual((await listed(acme)).filter(({ model }) => model === "chat").map(({ id }) => id), ["butler"]);
        assert.equal((await listed(acme, "/v1/adapters/butler?model=chat")).length, 1);
        assert.equal((await get(acme, "/v1/adapters/butler")).status, 404);
    });

    it("answers several at once with one generation, and in the other forms", async () => {
        const reply = await chat({ n: 3, temperature: 1, seed: 3 });
        assert.equal(reply.adapter_generation, 1);
        const response = await server.client(acme).responses.create({ model: "chat:butler", input: "Hello", max_output_tokens: 4 });
        assert.equal(response.adapter_generation, 1);
        assert.equal(response.model, "chat:butler");
    });

    it("keeps a session with it, and brings its keys and values back", async () => {
        const stored = await server.post("/v1/chat/completions", { model: "chat:butler", messages: [{ role: "user", content: "Tell me a long story about a little dog, a river and a boat that nobody could find." }], max_tokens: 40, temperature: 0, session: "with-adapter" }, bearer(acme));
        assert.equal(stored.status, 200);
        const session = await (await get(acme, "/v1/sessions/with-adapter")).json();
        assert.equal(session.model, "chat:butler");
        const saved = await server.post("/v1/sessions/with-adapter/save", "", bearer(acme));
        assert.equal(saved.status, 200);
        assert.ok((await saved.json()).tokens > 0);
        assert.equal((await server.post("/v1/sessions/with-adapter/restore", "", bearer(acme))).status, 200);
        assert.equal((await server.fetch("/v1/sessions/with-adapter", { method: "DELETE", headers: bearer(acme) })).status, 200);
    });

    it("is not embedded or tokenised", async () => {
        await failure(server.client(acme).embeddings.create({ model: "text:pirate", input: "x" }), 404);
        assert.equal((await server.post("/v1/tokenize", { model: "text:pirate", prompt: "x" }, bearer(acme))).status, 404);
    });
});

describe("what is kept of it", () => {
    it("shows running adapters in the metrics and takes them out again", async () => {
        const line = async () => (await (await get(admin, "/metrics")).text()).split("\n").find((text) => text.startsWith("vllm:lora_requests_info{"));
        assert.match(await line(), /running_lora_adapters="",waiting_lora_adapters=""\} \d{10}$/);
        const stream = await story(acme, { model: "text:pirate", max_tokens: 400, ignore_eos: true, stream: true });
        for await (const _ of stream) {
            await eventually(async () => /running_lora_adapters="pirate"/.test(await line()), "the metrics name it");
            break;
        }
        await eventually(async () => /running_lora_adapters=""/.test(await line()), "the metrics forget it");
    });

    it("witnesses the generation", async () => {
        await story(acme, { model: "text:poet" });
        await eventually(() => {
            const run = spawnSync(program, ["witness", "--tenant", "acme", "--json", "--store", join(folder, "store.db")], { encoding: "utf8" });
            const rows = run.stdout.trim().split("\n").flatMap((text) => { const value = JSON.parse(text); return value.entries ?? value.witness ?? [value]; });
            return rows.some((row) => row.adapter_generation === 1 && row.status === 200);
        }, "the witness log has it");
    });
});

describe("serve --adapter", () => {
    it("answers with it when a request names none", async () => {
        const pirate = textOf(await story(acme, { model: "text:pirate" }));
        const plain = textOf(await story(acme));
        const own = await Server.start([`text=${models.text}`, "--adapter", `${join(adapters, "pirate.gguf")}=1`, "--threads", "1"]);
        const ask = (more = {}) => own.client().completions.create({ model: "text", prompt: "Once upon a time", max_tokens: 16, temperature: 0, ...more });
        const reply = await ask();
        assert.equal(textOf(reply), pirate);
        assert.equal(reply.adapter_generation, 1);
        assert.equal(textOf(await ask({ adapter: [{ id: "pirate", weight: 0 }] })), plain);
        assert.deepEqual(await own.stop(), { code: 0, signal: null });
    });

    it("does not serve at all when it cannot be loaded", () => {
        for (const path of [join(adapters, "broken.gguf"), join(adapters, "none.gguf"), join(adapters, "butler.gguf")]) {
            const run = spawnSync(program, ["serve", `text=${models.text}`, "--adapter", path, "--listen", "127.0.0.1:0", "--store", "none"], { encoding: "utf8", timeout: 60000 });
            assert.equal(run.status, 1, run.stderr);
            assert.match(run.stderr, /cannot load adapter/);
        }
    });
});
