// Answers with a shape: formats, grammars, tools, through the official client and its helpers. One server for all cases.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";

import { campaign } from "./schema_campaign.mjs";
import { models, modules, OpenAI, Server } from "./server.mjs";

const load = (path) => import(pathToFileURL(join(modules, path)));
const { z } = await load("zod/index.js");
const { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } = await load("openai/helpers/zod.mjs");

let server, client;
const ask = [{ role: "user", content: "What is the weather in Paris?" }];
const chat = (more = {}) => client.chat.completions.create({ model: "chat", messages: ask, max_tokens: 200, temperature: 1, seed: 1, ...more });
const format = (schema) => ({ type: "json_schema", json_schema: { name: "s", strict: true, schema } });

async function refusal(promise, status = 400) {
    const start = performance.now();
    const error = await promise.then(() => assert.fail("it was accepted"), (reason) => reason);
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.equal(error.status, status, error.message);
    return { ...error.error, ms: performance.now() - start };
}

before(async () => {
    server = await Server.start([`chat=${models.chat}`, `text=${models.text}`, "--max-sequences", "8", "--threads", "1"]);
    client = server.client();
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

describe("formats", () => {
    it("answers with any object", async () => {
        const { message, finish_reason } = (await chat({ response_format: { type: "json_object" }, max_tokens: 400 })).choices[0];
        if (finish_reason === "stop") assert.equal(typeof JSON.parse(message.content), "object");
        else assert.ok(message.content.startsWith("{"));
    });

    it("keeps to a grammar and to an expression, streamed too", async () => {
        assert.match((await chat({ regex: "[a-z]{3}-[0-9]{2}" })).choices[0].message.content, /^[a-z]{3}-[0-9]{2}$/);
        const stream = await chat({ grammar: 'root ::= ("yes" | "no") [.!]', stream: true });
        let text = "";
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
        assert.match(text, /^(yes|no)[.!]$/);
        const completion = await client.completions.create({ model: "text", prompt: "Once", regex: "(ha)+!", max_tokens: 100 });
        assert.match(completion.choices[0].text, /^(ha)+!?$/);
        const response = await client.responses.create({ model: "chat", input: "Hi", text: { format: { type: "json_schema", name: "s", schema: { enum: ["a", "b"] } } } });
        assert.ok(["a", "b"].includes(JSON.parse(response.output_text)));
    });

    it("gives several choices of one shape", async () => {
        const { choices } = await chat({ n: 4, response_format: format({ enum: [1, 2, 3, 4] }) });
        for (const choice of choices) assert.ok([1, 2, 3, 4].includes(JSON.parse(choice.message.content)));
    });

    it("names what it does not support", async () => {
        const error = await refusal(chat({ response_format: format({ type: "object", properties: { a: { not: {} } } }) }));
        assert.equal(error.param, "response_format.json_schema.schema");
        assert.match(error.message, /#\/properties\/a: 'not' is not supported/);
        assert.equal((await refusal(chat({ regex: "(?=a)" }))).param, "regex");
        assert.equal((await refusal(chat({ grammar: "root ::= x" }))).param, "grammar");
    });

    it("refuses what has stopped others, at once", async () => {
        const deep = (n) => (n ? { type: "array", items: deep(n - 1) } : {});
        const hostile = [
            { grammar: `root ::= ${"(".repeat(60000)}` }, { regex: "(".repeat(60000) }, { regex: "((((a{999}){999}){999}){999})" },
            { grammar: 'root ::= "a"{100000}{100000}' }, { response_format: format({ type: "string", pattern: "(".repeat(30000) }) },
            { response_format: format({ type: "array", minItems: 1e6 }) }, { response_format: format({ enum: Array(30000).fill("a") }) },
        ];
        for (const more of hostile) assert.ok((await refusal(chat(more))).ms < 1000, JSON.stringify(more).slice(0, 60));
        assert.equal((await chat({ response_format: format(deep(20)) })).choices.length, 1);
    });

    it("holds random schemas on two models, as ajv judges", async () => {
        const result = await campaign(server.client("none"), ["chat", "text"], 12, { maxTokens: 600, seed: 7 });
        assert.deepEqual(result.invalid.slice(0, 3), []);
        assert.equal(result.whole + result.cut, 24);
        assert.ok(result.cut <= 4, `${result.cut} of 24 were cut off`);
    });

    it("round-trips a zod schema through the client's helper", async () => {
        const Person = z.object({ name: z.string().max(20), age: z.number().int().min(0).max(120), kind: z.enum(["a", "b"]), tags: z.array(z.string().max(8)).max(3), boss: z.object({ id: z.number().int() }).nullable() });
        const reply = await client.chat.completions.parse({ model: "chat", messages: ask, temperature: 1, seed: 2, max_tokens: 400, response_format: zodResponseFormat(Person, "person") });
        Person.parse(reply.choices[0].message.parsed);
    });
});

describe("tools", () => {
    const parameters = { type: "object", properties: { city: { type: "string", maxLength: 12 }, unit: { enum: ["C", "F"] } }, required: ["city", "unit"], additionalProperties: false };
    const tools = [{ type: "function", function: { name: "get_weather", description: "The weather of a city", parameters } }, { type: "function", function: { name: "now" } }];
    const checkCall = (call) => {
        const given = JSON.parse(call.function.arguments);
        if (call.function.name === "now") assert.deepEqual(given, {});
        else assert.ok(given.city.length <= 12 && ["C", "F"].includes(given.unit));
        assert.match(call.id, /^call_\w{24}$/);
        assert.equal(call.type, "function");
    };

    it("must call when told to, one or several", async () => {
        const one = (await chat({ tools, tool_choice: "required", parallel_tool_calls: false })).choices[0];
        assert.equal(one.finish_reason, "tool_calls");
        assert.equal(one.message.tool_calls.length, 1);
        checkCall(one.message.tool_calls[0]);
        const named = (await chat({ tools, tool_choice: { type: "function", function: { name: "now" } } })).choices[0];
        assert.deepEqual(named.message.tool_calls.map((call) => call.function), [{ name: "now", arguments: "{}" }]);
        let several = 0;
        for (let seed = 0; seed < 2; seed++) {
            const { message, finish_reason } = (await chat({ tools, tool_choice: "required", seed, max_tokens: 120 })).choices[0];
            message.tool_calls.slice(0, finish_reason === "length" ? -1 : undefined).forEach(checkCall);
            assert.equal(new Set(message.tool_calls.map((call) => call.id)).size, message.tool_calls.length);
            several += message.tool_calls.length > 1;
        }
        assert.ok(several > 0, "no answer had two calls");
    });

    it("may call or talk when it is free to, and never calls when told not to", async () => {
        for (let seed = 0; seed < 2; seed++) {
            const { message } = (await chat({ tools, seed, max_tokens: 40 })).choices[0];
            assert.ok(message.content || message.tool_calls);
            assert.ok(!(message.content ?? "").includes("<tool_call>"));
        }
        assert.equal((await chat({ tools, tool_choice: "none", max_tokens: 20 })).choices[0].message.tool_calls, undefined);
    });

    it("streams calls as the client puts them together", async () => {
        const runner = client.chat.completions.stream({ model: "chat", messages: ask, tools, tool_choice: "required", parallel_tool_calls: false, temperature: 1, seed: 5, max_tokens: 200 });
        const reply = await runner.finalChatCompletion();
        assert.equal(reply.choices[0].finish_reason, "tool_calls");
        reply.choices[0].message.tool_calls.forEach(checkCall);
    });

    it("runs the client's loop: calls, results, an answer", async () => {
        const seen = [];
        const tool = zodFunction({ name: "get_weather", parameters: z.object({ city: z.string().max(12), unit: z.enum(["C", "F"]) }), function: (given) => (seen.push(given), "18 degrees") });
        const runner = client.chat.completions.runTools({ model: "chat", messages: ask, tools: [tool], tool_choice: { type: "function", function: { name: "get_weather" } }, temperature: 1, seed: 3, max_tokens: 100 });
        await runner.done();
        assert.ok(seen.length >= 1 && ["C", "F"].includes(seen[0].unit));
        const history = [...ask, { role: "assistant", content: null, tool_calls: [{ id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Paris","unit":"C"}' } }] }, { role: "tool", tool_call_id: "call_1", content: "18 degrees" }];
        const reply = await chat({ messages: history, tools, max_tokens: 40 });
        assert.ok(reply.usage.prompt_tokens > 60);
        assert.ok(["stop", "length", "tool_calls"].includes(reply.choices[0].finish_reason));
    });

    it("names what is wrong with a tool", async () => {
        const bad = [{ type: "function", function: { name: "f", parameters: { not: {} } } }];
        const error = await refusal(chat({ tools: bad }));
        assert.equal(error.param, "tools");
        assert.match(error.message, /tools\[0\]\.function\.parameters: #: 'not' is not supported/);
        assert.match((await refusal(chat({ tools, tool_choice: { type: "function", function: { name: "x" } } }))).message, /no tool 'x'/);
        const unsupported = await refusal(client.chat.completions.create({ model: "text", messages: ask, tools }), 501);
        assert.match(unsupported.message, /template/);
    });
});

describe("responses", () => {
    const input = "What is the weather in Paris?";
    const respond = (more = {}) => client.responses.create({ model: "chat", input, max_output_tokens: 200, temperature: 1, seed: 1, ...more });
    const parameters = { type: "object", properties: { city: { type: "string", maxLength: 12 }, unit: { enum: ["C", "F"] } }, required: ["city", "unit"], additionalProperties: false };
    const tools = [{ type: "function", name: "get_weather", description: "The weather of a city", parameters, strict: true }, { type: "function", name: "now", parameters: null, strict: false }];
    const checkCall = (item) => {
        const given = JSON.parse(item.arguments);
        if (item.name === "now") assert.deepEqual(given, {});
        else assert.ok(given.city.length <= 12 && ["C", "F"].includes(given.unit));
        assert.match(item.call_id, /^call_\w{24}$/);
        assert.match(item.id, /^fc_\w{24}$/);
        assert.equal(item.status, "completed");
    };
    const calls = (reply) => reply.output.filter((item) => item.type === "function_call");

    it("keep to a schema, and tell it back", async () => {
        const schema = { type: "object", properties: { name: { type: "string", maxLength: 8 }, age: { type: "integer", minimum: 0, maximum: 99 } }, required: ["name", "age"], additionalProperties: false };
        const reply = await respond({ text: { format: { type: "json_schema", name: "person", schema, strict: true } } });
        const person = JSON.parse(reply.output_text);
        assert.ok(person.name.length <= 8 && Number.isInteger(person.age));
        assert.deepEqual(reply.text.format, { type: "json_schema", name: "person", schema, strict: true });
        assert.deepEqual((await respond({ max_output_tokens: 1 })).text.format, { type: "text" });
        const object = await respond({ text: { format: { type: "json_object" } }, max_output_tokens: 400 });
        assert.ok(object.output_text.startsWith("{"));
        assert.equal(object.text.format.type, "json_object");
    });

    it("round-trip a zod schema through the client's helper, streamed too", async () => {
        const Person = z.object({ name: z.string().max(20), age: z.number().int().min(0).max(120), kind: z.enum(["a", "b"]), boss: z.object({ id: z.number().int() }).nullable() });
        const wish = { model: "chat", input, temperature: 1, seed: 2, max_output_tokens: 400, text: { format: zodTextFormat(Person, "person") } };
        Person.parse((await client.responses.parse(wish)).output_parsed);
        const reply = await client.responses.stream(wish).finalResponse();
        Person.parse(reply.output_parsed);
    });

    it("must call when told to, one or several", async () => {
        const one = await respond({ tools, tool_choice: "required", parallel_tool_calls: false });
        assert.equal(one.status, "completed");
        assert.deepEqual(one.output.map((item) => item.type), ["function_call"]);
        checkCall(one.output[0]);
        assert.equal(one.output_text, "");
        assert.deepEqual([one.tools.length, one.tool_choice, one.parallel_tool_calls], [2, "required", false]);
        const named = await respond({ tools, tool_choice: { type: "function", name: "now" } });
        assert.deepEqual(named.output.map((item) => [item.name, item.arguments]), [["now", "{}"]]);
        assert.deepEqual(named.tool_choice, { type: "function", name: "now" });
        let several = 0;
        for (let seed = 0; seed < 2; seed++) {
            const reply = await respond({ tools, tool_choice: "required", seed, max_output_tokens: 120 });
            calls(reply).slice(0, reply.status === "incomplete" ? -1 : undefined).forEach(checkCall);
            assert.equal(new Set(calls(reply).map((call) => call.call_id)).size, calls(reply).length);
            several += calls(reply).length > 1;
        }
        assert.ok(several > 0, "no answer had two calls");
    });

    it("may call or talk when free to, and never call when told not to", async () => {
        for (let seed = 0; seed < 2; seed++) {
            const reply = await respond({ tools, seed, max_output_tokens: 40 });
            assert.ok(reply.output.length > 0);
            assert.ok(!reply.output_text.includes("<tool_call>"));
        }
        assert.deepEqual(calls(await respond({ tools, tool_choice: "none", max_output_tokens: 20 })), []);
    });

    it("stream calls as the client puts them together, the same as whole", async () => {
        for (const seed of [5, 6]) {
            const wish = { tools, tool_choice: "required", seed, max_output_tokens: 120 };
            const events = [];
            for await (const event of await respond({ ...wish, stream: true })) events.push(event);
            assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
            const whole = await respond(wish), last = events.at(-1).response;
            const plain = (reply) => reply.output.map(({ type, name, arguments: given, status }) => ({ type, name, given, status }));
            assert.deepEqual(plain(last), plain(whole));
            last.output.forEach((item, i) => {
                const deltas = events.filter((event) => event.type === "response.function_call_arguments.delta" && event.output_index === i);
                assert.equal(deltas.map((event) => event.delta).join(""), item.arguments);
                assert.ok(deltas.every((event) => event.item_id === item.id));
            });
        }
        const reply = await client.responses.stream({ model: "chat", input, tools, tool_choice: "required", parallel_tool_calls: false, temperature: 1, seed: 5, max_output_tokens: 200 }).finalResponse();
        assert.equal(reply.output.length, 1);
        checkCall(reply.output[0]);
    });

    it("go on from calls and results", async () => {
        const Weather = zodResponsesFunction({ name: "get_weather", parameters: z.object({ city: z.string().max(12), unit: z.enum(["C", "F"]) }) });
        const first = await client.responses.parse({ model: "chat", input, tools: [Weather], tool_choice: "required", parallel_tool_calls: false, temperature: 1, seed: 3, max_output_tokens: 100 });
        assert.ok(["C", "F"].includes(first.output[0].parsed_arguments.unit));
        const { parsed_arguments, ...call } = first.output[0];
        const history = [{ role: "user", content: input }, call, { type: "function_call_output", call_id: call.call_id, output: "18 degrees" }];
        const reply = await respond({ input: history, tools, max_output_tokens: 40 });
        assert.ok(reply.usage.input_tokens > first.usage.input_tokens);
        assert.ok(reply.output.length > 0);
    });

    it("name what is wrong", async () => {
        const bad = await refusal(respond({ text: { format: { type: "json_schema", name: "s", schema: { not: {} } } } }));
        assert.equal(bad.param, "text.format.schema");
        assert.match(bad.message, /'not' is not supported/);
        assert.equal((await refusal(respond({ tools: [{ type: "function", name: "f", parameters: { not: {} } }] }))).param, "tools");
        assert.equal((await refusal(respond({ tools: [{ type: "web_search" }] }))).param, "tools[0].type");
        assert.equal((await refusal(respond({ input: [{ type: "function_call_output", output: "x" }] }))).param, "input[0].call_id");
        assert.equal((await refusal(client.responses.create({ model: "text", input, tools }), 501)).type !== undefined, true);
    });
});
