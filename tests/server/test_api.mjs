// The API as the official client sees it, on real models and without keys. One server for all cases.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { eventually, failure, models, Server } from "./server.mjs";

let server, client;
const hello = [{ role: "user", content: "Hello, who are you?" }];
const chat = (more = {}) => client.chat.completions.create({ model: "chat", messages: hello, max_tokens: 8, temperature: 0, ...more });
const text = (more = {}) => client.completions.create({ model: "text", prompt: "Once upon a time", max_tokens: 8, temperature: 0, ...more });

async function collect(stream) {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
}

const textOf = (chunks, index = 0) =>
    chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index)
        .map((choice) => choice.delta?.content ?? choice.text ?? "").join("");

before(async () => {
    server = await Server.start([`chat=${models.chat}`, `text=${models.text}`, "--max-sequences", "4", "--max-queue", "8", "--threads", "1"]);
    client = server.client();
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

describe("chat completions", () => {
    it("answers with a message, a reason and exact usage", async () => {
        const reply = await chat();
        assert.match(reply.id, /^chatcmpl-/);
        assert.equal(reply.object, "chat.completion");
        assert.equal(reply.model, "chat");
        assert.equal(reply.choices.length, 1);
        assert.equal(reply.choices[0].message.role, "assistant");
        assert.ok(reply.choices[0].message.content.length > 0);
        assert.equal(reply.choices[0].finish_reason, "length");
        assert.equal(reply.usage.completion_tokens, 8);
        assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + 8);
    });

    it("streams the same words it answers at once", async () => {
        const whole = await chat({ max_tokens: 16 });
        const chunks = await collect(await chat({ max_tokens: 16, stream: true }));
        assert.equal(textOf(chunks), whole.choices[0].message.content);
        assert.equal(chunks[0].choices[0].delta.role, "assistant");
        assert.equal(chunks.at(-1).choices[0].finish_reason, whole.choices[0].finish_reason);
        assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
        assert.ok(chunks.length > 3);
    });

    it("ends a stream with usage when asked to", async () => {
        const chunks = await collect(await chat({ stream: true, stream_options: { include_usage: true } }));
        assert.equal(chunks.at(-1).choices.length, 0);
        assert.equal(chunks.at(-1).usage.completion_tokens, 8);
        assert.ok(chunks.slice(0, -1).every((chunk) => chunk.usage === null));
    });

    it("says nothing of usage in a stream when not asked", async () => {
        const chunks = await collect(await chat({ stream: true }));
        assert.ok(chunks.every((chunk) => !chunk.usage));
    });

    it("gives as many choices as n, each with its own reason", async () => {
        const reply = await chat({ n: 3, temperature: 1, seed: 5 });
        assert.deepEqual(reply.choices.map((choice) => choice.index), [0, 1, 2]);
        assert.ok(reply.choices.every((choice) => ["stop", "length"].includes(choice.finish_reason)));
        assert.ok(new Set(reply.choices.map((choice) => choice.message.content)).size > 1);
    });

    it("streams n choices by their index", async () => {
        const whole = await chat({ n: 2, temperature: 1, seed: 6 });
        const chunks = await collect(await chat({ n: 2, temperature: 1, seed: 6, stream: true }));
        for (const i of [0, 1]) assert.equal(textOf(chunks, i), whole.choices[i].message.content);
        const reasons = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.finish_reason);
        assert.equal(reasons.length, 2);
    });

    it("repeats an answer for the same seed and not for another", async () => {
        const words = async (seed) => (await chat({ temperature: 1.2, max_tokens: 12, seed })).choices[0].message.content;
        const first = await words(7);
        assert.equal(await words(7), first);
        const others = await Promise.all([8, 9, 10].map(words));
        assert.ok(others.some((other) => other !== first));
    });

    it("stops before a stop string and says so", async () => {
        const whole = (await chat({ max_tokens: 16 })).choices[0].message.content;
        const stop = whole.slice(4, 8);
        const reply = await chat({ max_tokens: 16, stop: [stop] });
        assert.equal(reply.choices[0].message.content, whole.slice(0, whole.indexOf(stop)));
        assert.equal(reply.choices[0].finish_reason, "stop");
    });

    it("never streams a part of a stop string", async () => {
        const whole = (await chat({ max_tokens: 16 })).choices[0].message.content;
        const stop = whole.slice(4, 9);
        const chunks = await collect(await chat({ max_tokens: 16, stop, stream: true }));
        assert.equal(textOf(chunks), whole.slice(0, whole.indexOf(stop)));
    });

    it("gives log-probabilities that are at most zero and best first", async () => {
        const reply = await chat({ logprobs: true, top_logprobs: 3, repetition_penalty: 1 });
        const rows = reply.choices[0].logprobs.content;
        assert.equal(rows.length, reply.usage.completion_tokens);
        for (const row of rows) {
            assert.ok(row.logprob <= 0);
            assert.equal(row.top_logprobs.length, 3);
            assert.equal(row.token, row.top_logprobs[0].token); // temperature 0
            assert.ok(row.top_logprobs[0].logprob >= row.top_logprobs[2].logprob);
        }
        assert.equal(rows.map((row) => row.token).join("").trim(), reply.choices[0].message.content.trim());
    });

    it("streams log-probabilities for every token", async () => {
        const chunks = await collect(await chat({ logprobs: true, top_logprobs: 1, stream: true }));
        const rows = chunks.flatMap((chunk) => chunk.choices).flatMap((choice) => choice.logprobs?.content ?? []);
        assert.equal(rows.length, 8);
    });

    it("finishes with stop where the model ends its answer", async () => {
        const reply = await chat({ max_tokens: 200, messages: [{ role: "user", content: "Hi" }] });
        assert.equal(reply.choices[0].finish_reason, "stop");
        assert.ok(reply.usage.completion_tokens < 200);
    });

    it("takes content in parts and the other roles", async () => {
        const reply = await chat({
            messages: [
                { role: "system", content: "Be brief." },
                { role: "user", content: [{ type: "text", text: "Hel" }, { type: "text", text: "lo" }] },
                { role: "assistant", content: "Hi." },
                { role: "user", content: "Again?" },
            ],
        });
        assert.ok(reply.choices[0].message.content.length > 0);
    });

    it("finds a prompt again that it has computed before", async () => {
        const messages = [{ role: "user", content: "A long story about rivers, lakes and the sea. ".repeat(12) }];
        const first = await chat({ messages, max_tokens: 2 });
        const second = await chat({ messages, max_tokens: 2 });
        assert.equal(first.usage.prompt_tokens, second.usage.prompt_tokens);
        assert.ok(second.usage.prompt_tokens_details.cached_tokens >= 32);
        assert.ok(second.usage.prompt_tokens_details.cached_tokens < second.usage.prompt_tokens);
        assert.equal(second.choices[0].message.content, first.choices[0].message.content);
        const third = await client.chat.completions.create({ model: "chat", messages, max_tokens: 2, prompt_cache: false });
        assert.equal(third.usage.prompt_tokens_details.cached_tokens, 0);
    });

    it("bans a token by logit_bias", async () => {
        const plain = await chat({ max_tokens: 1, logprobs: true });
        const row = plain.choices[0].logprobs.content[0];
        const asked = await server.post("/v1/tokenize", { model: "chat", prompt: row.token, add_bos: false });
        const { tokens } = await asked.json();
        const biased = await chat({ max_tokens: 1, logit_bias: { [tokens[0]]: -100 } });
        assert.notEqual(biased.choices[0].message.content, plain.choices[0].message.content);
    });

    it("lets go of an answer whose reader aborts", async () => {
        const stream = await chat({ max_tokens: 2000, stream: true });
        for await (const chunk of stream) {
            assert.ok(chunk.id);
            break; // the client aborts the request
        }
        await eventually(async () => {
            const page = await (await server.fetch("/metrics")).text();
            return /ruvllm_requests_running\{model_name="chat"\} 0/.test(page) && /ruvllm_cancelled_total\{model_name="chat"\} [1-9]/.test(page);
        }, "the engine has nothing to do any more");
    });

    it("answers many at once, each as if it were alone", async () => {
        const prompts = Array.from({ length: 8 }, (_, i) => `One day, ${i + 2} little birds`);
        const alone = [];
        for (const prompt of prompts) alone.push((await text({ prompt })).choices[0].text);
        const together = await Promise.all(prompts.map((prompt) => text({ prompt })));
        assert.deepEqual(together.map((reply) => reply.choices[0].text), alone);
    });
});

describe("completions", () => {
    it("continues a text", async () => {
        const reply = await text();
        assert.match(reply.id, /^cmpl-/);
        assert.equal(reply.object, "text_completion");
        assert.match(reply.choices[0].text, /there was/);
        assert.equal(reply.usage.completion_tokens, 8);
    });

    it("streams a continuation", async () => {
        const chunks = await collect(await text({ stream: true, stream_options: { include_usage: true } }));
        assert.equal(textOf(chunks), (await text()).choices[0].text);
        assert.equal(chunks.at(-1).usage.completion_tokens, 8);
    });

    it("takes several prompts and numbers their choices through", async () => {
        const reply = await text({ prompt: ["Once upon a time", "The cat"], n: 2 });
        assert.deepEqual(reply.choices.map((choice) => choice.index), [0, 1, 2, 3]);
        assert.equal(reply.choices[0].text, reply.choices[1].text); // temperature 0
        assert.notEqual(reply.choices[0].text, reply.choices[2].text);
    });

    it("takes token ids", async () => {
        const { tokens } = await (await server.post("/v1/tokenize", { model: "text", prompt: "Once upon a time" })).json();
        assert.equal((await text({ prompt: tokens })).choices[0].text, (await text()).choices[0].text);
    });

    it("gives log-probabilities with offsets", async () => {
        const { choices: [choice] } = await text({ logprobs: 2 });
        assert.equal(choice.logprobs.tokens.length, 8);
        assert.equal(choice.logprobs.tokens.join(""), choice.text);
        assert.equal(choice.logprobs.text_offset[0], 0);
        assert.ok(choice.logprobs.text_offset[7] > choice.logprobs.text_offset[1]);
    });

    it("goes on to the end of the context without max_tokens, and says length", async () => {
        const reply = await client.completions.create({ model: "text", prompt: "Once upon a time", temperature: 1, seed: 1, ignore_eos: true });
        assert.equal(reply.choices[0].finish_reason, "length");
        const { context } = await (await server.fetch("/v1/models/text")).json();
        assert.ok(Math.abs(reply.usage.total_tokens - context) <= 1, `${reply.usage.total_tokens} of ${context}`);
    });
});

describe("responses", () => {
    const respond = (more = {}) => client.responses.create({ model: "chat", input: "Hello, who are you?", max_output_tokens: 16, temperature: 0, ...more });

    it("answers with an output text", async () => {
        const reply = await respond();
        assert.match(reply.id, /^resp_/);
        assert.equal(reply.object, "response");
        assert.ok(reply.output_text.length > 0);
        assert.ok(["completed", "incomplete"].includes(reply.status));
        assert.equal(reply.usage.total_tokens, reply.usage.input_tokens + reply.usage.output_tokens);
    });

    it("streams events in order", async () => {
        const events = await collect(await respond({ stream: true }));
        assert.equal(events[0].type, "response.created");
        assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
        const words = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta).join("");
        assert.equal(words, (await respond()).output_text);
        assert.match(events.at(-1).type, /^response\.(completed|incomplete)$/);
    });

    it("takes instructions", async () => {
        const reply = await respond({ instructions: "Answer in one word." });
        assert.equal(reply.instructions, "Answer in one word.");
    });
});

describe("embeddings", () => {
    const embed = (input, more = {}) => client.embeddings.create({ model: "chat", input, encoding_format: "float", ...more });
    const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

    it("has length one and the model's width", async () => {
        const reply = await embed("The river is wide.");
        assert.equal(reply.data[0].embedding.length, 512);
        assert.ok(Math.abs(dot(reply.data[0].embedding, reply.data[0].embedding) - 1) < 1e-4);
        assert.ok(reply.usage.prompt_tokens > 0);
    });

    it("puts like beside like", async () => {
        const { data } = await embed(["The cat sleeps.", "The cat is sleeping.", "Compile the kernel with clang."]);
        const [a, b, c] = data.map((row) => row.embedding);
        assert.ok(dot(a, b) > dot(a, c));
    });

    it("gives the same numbers in base64", async () => {
        const plain = (await embed("Hello")).data[0].embedding;
        const reply = await (await server.post("/v1/embeddings", { model: "chat", input: "Hello", encoding_format: "base64" })).json();
        const bytes = Buffer.from(reply.data[0].embedding, "base64");
        const floats = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
        plain.forEach((x, i) => assert.ok(Math.abs(x - floats[i]) < 1e-6));
    });

    it("refuses dimensions the model does not have", async () => {
        const error = await failure(embed("Hello", { dimensions: 7 }), 400);
        assert.equal(error.param, "dimensions");
        assert.match(error.message, /512/);
    });
});

describe("models", () => {
    it("lists what is served", async () => {
        const { data } = await client.models.list();
        assert.deepEqual(data.map((model) => model.id), ["chat", "text"]);
        assert.ok(data[0].loaded && data[0].context > 0);
    });

    it("describes one", async () => {
        const model = await client.models.retrieve("chat");
        assert.equal(model.object, "model");
        assert.equal(model.architecture, "llama");
    });

    it("is 404 for one that is not served, whatever its name looks like", async () => {
        for (const name of ["gpt-9", "../../etc/passwd", "/etc/passwd", models.chat, "chat ", "CHAT"]) {
            const error = await failure(chat({ model: name }), 404);
            assert.equal(error.code, "model_not_found");
        }
        await failure(client.models.retrieve("nothing/here"), 404);
    });
});

describe("text", () => {
    it("tokenises and back", async () => {
        const asked = await server.post("/v1/tokenize", { model: "chat", prompt: "Hello world", with_pieces: true });
        const reply = await asked.json();
        assert.equal(asked.status, 200);
        assert.ok(reply.tokens.length > 1);
        const back = await (await server.post("/v1/detokenize", { model: "chat", tokens: reply.tokens })).json();
        assert.equal(back.text.trim(), "Hello world");
    });

    it("never reads special tokens in a message", async () => {
        const spelled = await (await server.post("/v1/tokenize", { model: "chat", messages: [{ role: "user", content: "<|im_end|><|im_start|>" }] })).json();
        const plain = await (await server.post("/v1/tokenize", { model: "chat", messages: [{ role: "user", content: "x" }] })).json();
        assert.ok(spelled.tokens.length > plain.tokens.length + 4);
    });

    it("renders a conversation with the model's template", async () => {
        const reply = await (await server.post("/v1/chat/template", { model: "chat", messages: hello })).json();
        assert.ok(reply.prompt.includes("Hello, who are you?"));
        assert.ok(reply.prompt.length > "Hello, who are you?".length);
    });

    it("is an error to chat with a model that has no template", async () => {
        const error = await failure(chat({ model: "text" }), 501);
        assert.match(error.message, /template/);
    });
});

describe("sessions", () => {
    it("keeps a conversation that was given an id", async () => {
        const reply = await chat({ session: "first" });
        const stored = await (await server.fetch("/v1/sessions/first")).json();
        assert.deepEqual(stored.messages, [...hello, { role: "assistant", content: reply.choices[0].message.content }]);
        assert.equal(stored.model, "chat");
        assert.equal(stored.title, hello[0].content);
        assert.equal(stored.tokens, reply.usage.total_tokens);
    });

    it("keeps a streamed one before the stream ends", async () => {
        const chunks = await collect(await chat({ session: "streamed", stream: true }));
        const stored = await (await server.fetch("/v1/sessions/streamed")).json();
        assert.equal(stored.messages.at(-1).content, textOf(chunks));
    });

    it("lists them, the newest first, without their words", async () => {
        const { data } = await (await server.fetch("/v1/sessions")).json();
        const ids = data.map((session) => session.id);
        assert.ok(ids.indexOf("streamed") < ids.indexOf("first"));
        assert.ok(data.every((session) => !("messages" in session)));
    });

    it("saves what was computed and brings it back", async () => {
        const messages = [{ role: "user", content: "Tell me about the sea, the tides and the moon. ".repeat(10) }];
        await chat({ messages, session: "kept" });
        const saved = await server.post("/v1/sessions/kept/save", "");
        const about = await saved.json();
        assert.equal(saved.status, 200, JSON.stringify(about));
        assert.ok(about.tokens >= 32 && about.bytes > 0);
        const restored = await server.post("/v1/sessions/kept/restore", "");
        assert.equal(restored.status, 200);
        assert.equal((await restored.json()).tokens, about.tokens);
    });

    it("deletes one, and then it is not there", async () => {
        assert.equal((await server.fetch("/v1/sessions/kept", { method: "DELETE" })).status, 200);
        assert.equal((await server.fetch("/v1/sessions/kept")).status, 404);
        assert.equal((await server.post("/v1/sessions/kept/restore", "")).status, 404);
        assert.equal((await server.fetch("/v1/sessions/kept", { method: "DELETE" })).status, 404);
    });

    it("has none of a strange name", async () => {
        for (const id of ["..", "..%2f..%2fetc%2fpasswd", "a%00b", "x".repeat(65), "a.b"])
            assert.equal((await server.fetch(`/v1/sessions/${id}`)).status, 404);
    });

    it("refuses a session with several answers", async () => {
        assert.equal((await failure(chat({ session: "many", n: 2 }), 400)).param, "n");
    });
});

describe("errors", () => {
    it("says the numbers when a prompt does not fit", async () => {
        const error = await failure(chat({ messages: [{ role: "user", content: "word ".repeat(9000) }] }), 400);
        assert.equal(error.code, "context_length_exceeded");
        assert.match(error.message, /\d{4,}.*\d{4}/);
    });

    it("names an unknown field", async () => {
        assert.match((await failure(chat({ tempreature: 1 }), 400)).message, /tempreature/);
    });

    it("names fields that are not supported yet", async () => {
        assert.equal((await failure(chat({ audio: { voice: "x" } }), 400)).param, "audio");
        assert.equal((await failure(chat({ response_format: { type: "xml" } }), 400)).param, "response_format.type");
    });

    it("refuses every number that is out of range or not one", async () => {
        const wrong = {
            temperature: [-0.1, "1", 1e308, {}], top_p: [-1, 1.5, "x"], max_tokens: [-1, 1.5, "8", 1e20],
            n: [0, 9, -1, "2"], presence_penalty: [-3, 3], frequency_penalty: [2.5], seed: ["x", 1.5],
            top_logprobs: [21, -1], repetition_penalty: [-1],
        };
        for (const [field, values] of Object.entries(wrong))
            for (const value of values) await failure(chat({ [field]: value, logprobs: true }), 400);
    });

    it("refuses bodies that are no JSON, NaN among them", async () => {
        for (const body of ["", "{", "[]", "null", '{"model":NaN}', '{"model":"chat",}', "[".repeat(100000)]) {
            const reply = await server.post("/v1/chat/completions", body);
            assert.equal(reply.status, 400);
            assert.equal((await reply.json()).error.type, "invalid_request_error");
        }
    });

    it("refuses a body that is too large before reading it", async () => {
        const reply = await server.post("/v1/chat/completions", " ".repeat(9 << 20)).catch(() => null);
        if (reply) assert.equal(reply.status, 413);
        assert.equal((await server.fetch("/healthz")).status, 200);
    });

    it("is 404 for a path that is not there and 405 for a method", async () => {
        assert.equal((await server.fetch("/v1/nothing")).status, 404);
        const reply = await server.fetch("/v1/chat/completions");
        assert.equal(reply.status, 405);
        assert.equal(reply.headers.get("allow"), "POST");
        assert.equal((await reply.json()).error.type, "invalid_request_error");
    });

    it("is 429 with Retry-After when the queue is full", async () => {
        const many = Array.from({ length: 30 }, () => server.fetch("/v1/completions", {
            method: "POST",
            body: JSON.stringify({ model: "text", prompt: "Once", max_tokens: 200, ignore_eos: true }),
        }).then(async (reply) => ({ status: reply.status, after: reply.headers.get("retry-after"), body: await reply.json() })));
        const replies = await Promise.all(many);
        const refused = replies.filter((reply) => reply.status === 429);
        assert.ok(refused.length > 0 && refused.length < 30);
        assert.ok(refused.every((reply) => Number(reply.after) >= 1 && reply.body.error.type === "rate_limit_error"));
        assert.ok(replies.every((reply) => [200, 429].includes(reply.status)));
    });
});

describe("the rest of HTTP", () => {
    it("answers HEAD without a body", async () => {
        const reply = await server.fetch("/healthz", { method: "HEAD" });
        assert.equal(reply.status, 200);
        assert.equal(reply.headers.get("content-length"), "15");
        assert.equal(await reply.text(), "");
    });

    it("serves the page with strict headers", async () => {
        const reply = await server.fetch("/");
        assert.equal(reply.status, 200);
        assert.match(reply.url, /\/page\/index\.html$/);
        assert.match(reply.headers.get("content-type"), /text\/html/);
        assert.match(reply.headers.get("content-security-policy"), /default-src 'none'/);
        assert.equal(reply.headers.get("x-content-type-options"), "nosniff");
        assert.equal(reply.headers.get("referrer-policy"), "no-referrer");
        for (const [, file] of (await reply.text()).matchAll(/(?:src|href)="([a-z_.]+)"/g))
            assert.equal((await server.fetch(`/page/${file}`)).status, 200, file);
        assert.equal((await server.fetch("/page/nothing.js")).status, 404);
        const again = await server.fetch("/page/index.html", { headers: { "if-none-match": reply.headers.get("etag") } });
        assert.equal(again.status, 304);
    });

    it("refuses a foreign Host, a foreign Origin and lets its own through", async () => {
        const host = new URL(server.url).host;
        const ask = (headers) => fetchRaw(server.url, headers);
        assert.equal((await ask({ host: "evil.example" })).status, 403);
        assert.equal((await ask({ host: `127.0.0.1.evil.example:80` })).status, 403);
        assert.equal((await ask({ host, origin: "https://evil.example" })).status, 403);
        assert.equal((await ask({ host, origin: "null" })).status, 403);
        assert.equal((await ask({ host, origin: `http://${host}` })).status, 200);
        assert.equal((await ask({ host: "localhost" })).status, 200);
    });

    it("carries a trace on and begins one where there is none", async () => {
        const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        const told = await server.fetch("/healthz", { headers: { traceparent: `00-${trace}-00f067aa0ba902b7-01` } });
        assert.match(told.headers.get("traceparent"), new RegExp(`^00-${trace}-[0-9a-f]{16}-01$`));
        const none = await server.fetch("/healthz", { headers: { traceparent: "00-zz" } });
        assert.match(none.headers.get("traceparent"), /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    });

    it("counts what it did under our names and vLLM's", async () => {
        const page = await (await server.fetch("/metrics")).text();
        for (const name of [
            "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
            "vllm:time_to_first_token_seconds_bucket", "vllm:time_per_output_token_seconds_count", "vllm:e2e_request_latency_seconds_sum",
            "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:lora_requests_info", "ruvllm_kv_blocks_f16",
        ]) assert.match(page, new RegExp(`^${name}\\{`, "m"), name);
        assert.match(page, /ruvllm_http_requests_total\{route="\/v1\/chat\/completions",method="POST",status="200"\} [1-9]/);
        assert.match(page, /ruvllm_http_requests_total\{route="none",method="any",status="404"\} [1-9]/);
    });

    it("logs one JSON line a request, never a prompt", async () => {
        await chat({ messages: [{ role: "user", content: "canary-4711 \u001b[31m" }] });
        await server.fetch("/v1/x%0a\u2028y?secret=canary-4711");
        await eventually(() => server.log().some((line) => line.path?.startsWith("/v1/x")), "the line is written");
        assert.ok(!server.said.err.includes("canary-4711"));
        const line = server.log().find((entry) => entry.route === "/v1/chat/completions" && entry.status === 200);
        assert.ok(line.prompt_tokens > 0 && line.first_token_ms > 0 && line.traceparent && line.request_id);
        assert.equal(line.tenant, "local");
    });
});

// fetch() sets Host itself, so this one speaks for itself.
async function fetchRaw(url, headers) {
    const { request } = await import("node:http");
    return new Promise((resolve, reject) => {
        const ask = request(`${url}/v1/models`, { headers, setHost: !headers.host }, (reply) => {
            reply.resume();
            reply.on("end", () => resolve({ status: reply.statusCode }));
        });
        ask.on("error", reject);
        ask.end();
    });
}
