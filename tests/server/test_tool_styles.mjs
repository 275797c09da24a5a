// Calls of tools in the ways of the families: a small model wears each family's template, the marks once as control
// tokens and once as letters, and calls are made, parsed back and told in the history. One server for all cases.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { editGguf } from "./gguf_edit.mjs";
import { models, Server } from "./server.mjs";

const jinja = (name) => readFileSync(join(process.env.RUVLLM_TEST_DATA ?? "", "templates", "jinja", `${name}.jinja`), "utf8");
// As the family's template: tools in the system message, a mark for every role, no word about calls.
const phi = "{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|system|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|><|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
// Without the words about thinking: a small model that may think finds no end of it.
const granite = () => jinja("ibm-granite-granite-3.3-2B-Instruct").replaceAll("<think>", "");
const families = {
    mistral: { template: () => jinja("mistralai-Mistral-Nemo-Instruct-2407"), controls: ["[TOOL_CALLS]", "[TOOL_RESULTS]"], mark: "[TOOL_CALLS]" },
    mistral_letters: { template: () => jinja("mistralai-Mistral-Nemo-Instruct-2407"), mark: "[TOOL_CALLS]" },
    llama3: { template: () => jinja("meta-llama-Llama-3.2-3B-Instruct"), controls: ["<|eot_id|>", "<|start_header_id|>"], isSingle: true, mark: '"parameters": ' },
    phi: { template: () => phi, controls: ["<|tool_call|>", "<|/tool_call|>"], mark: "<|tool_call|>" },
    phi_letters: { template: () => phi, mark: "<|tool_call|>" },
    granite: { template: granite, controls: ["<|tool_call|>", "<|start_of_role|>"], mark: "<|tool_call|>" },
    granite_letters: { template: granite, mark: "<|tool_call|>" },
    gemma: { template: () => jinja("google-gemma-2-2b-it"), controls: ["<start_of_turn>", "<end_of_turn>"], isSingle: true, mark: '"parameters": ' },
    hermes: { template: () => jinja("Qwen-Qwen2.5-7B-Instruct"), controls: ["<|im_start|>", "<|im_end|>"], mark: "<tool_call>" },
};
// Their calls are no JSON object with a name and arguments.
const foreign = { gemma4: "google-gemma-4-31B-it", qwen_coder: "Qwen3-Coder", devstral: "unsloth-mistral-Devstral-Small-2507", cohere: "CohereForAI-c4ai-command-r7b-12-2024-tool_use" };

const parameters = { type: "object", properties: { city: { type: "string", maxLength: 8 }, unit: { enum: ["C", "F"] } }, required: ["city", "unit"], additionalProperties: false };
const tools = [{ type: "function", function: { name: "get_weather", description: "The weather", parameters } }, { type: "function", function: { name: "now" } }];
const ask = [{ role: "user", content: "Is it cold?" }];

function checkCall({ id, type, function: { name, arguments: given } }) {
    const values = JSON.parse(given);
    assert.equal(type, "function");
    assert.match(id, /^call_\w{24}$/);
    if (name === "now") return assert.deepEqual(values, {});
    assert.equal(name, "get_weather");
    assert.deepEqual(Object.keys(values), ["city", "unit"]);
    assert.ok([...values.city].length <= 8 && ["C", "F"].includes(values.unit), given);
}

let server, client, folder;
before(async () => {
    folder = mkdtempSync(join(tmpdir(), "ruvllm-styles-"));
    const all = { ...families, ...Object.fromEntries(Object.entries(foreign).map(([name, file]) => [name, { template: () => jinja(file) }])) };
    const args = Object.entries(all).map(([name, { template, controls }]) => `${name}=${editGguf(models.text, join(folder, `${name}.gguf`), { "tokenizer.chat_template": template() }, controls)}`);
    server = await Server.start([...args, "--max-sequences", "2", "--threads", "1"]);
    client = server.client();
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

for (const [model, family] of Object.entries(families)) {
    const chat = async (more = {}) => (await client.chat.completions.create({ model, messages: ask, tools, max_tokens: 250, temperature: 1, seed: 1, ...more }));

    describe(model, () => {
        it("must call when told to: one call, a named one, several", async () => {
            const { message, finish_reason } = (await chat({ tool_choice: "required", parallel_tool_calls: false })).choices[0];
            assert.equal(finish_reason, "tool_calls");
            assert.equal(message.tool_calls.length, 1);
            message.tool_calls.forEach(checkCall);
            assert.ok(!message.content, message.content);
            const named = (await chat({ tool_choice: { type: "function", function: { name: "get_weather" } } })).choices[0].message;
            assert.deepEqual(named.tool_calls.map((call) => call.function.name), ["get_weather"]);
            named.tool_calls.forEach(checkCall);
            let most = 0;
            for (let seed = 0; seed < 20 && most < (family.isSingle ? 1 : 2); seed++) {
                const { message: several, finish_reason: why } = (await chat({ tool_choice: "required", seed })).choices[0];
                const whole = several.tool_calls.slice(0, why === "length" ? -1 : undefined);
                whole.forEach(checkCall);
                assert.equal(new Set(whole.map(({ id }) => id)).size, whole.length);
                most = Math.max(most, whole.length);
            }
            assert.equal(most, family.isSingle ? 1 : Math.max(most, 2), "no answer had several calls");
        });

        it("streams a call as the client puts it together", async () => {
            const runner = client.chat.completions.stream({ model, messages: ask, tools, tool_choice: "required", parallel_tool_calls: false, temperature: 1, seed: 5, max_tokens: 250 });
            const { choices } = await runner.finalChatCompletion();
            assert.equal(choices[0].finish_reason, "tool_calls");
            choices[0].message.tool_calls.forEach(checkCall);
        });

        it("never shows the mark of a call as text", async () => {
            for (let seed = 0; seed < 3; seed++)
                assert.ok(!((await chat({ seed, max_tokens: 60 })).choices[0].message.content ?? "").includes(family.mark));
        });

        it("takes its own call and the result back", async () => {
            const first = (await chat({ tool_choice: "required", parallel_tool_calls: false })).choices[0].message;
            const size = async (calls, content) => (await chat({ messages: [...ask, { ...first, tool_calls: calls }, { role: "tool", tool_call_id: calls[0].id, content }], max_tokens: 1 })).usage.prompt_tokens;
            const call = (city) => [{ ...first.tool_calls[0], function: { name: "get_weather", arguments: JSON.stringify({ city, unit: "C" }) } }];
            const plain = await size(call("Rome"), "18");
            // What is longer takes more of the prompt: both are in it.
            assert.ok((await size(call("Rome"), "18 degrees, and it rains")) > plain + 5);
            assert.ok((await size(call("Rome, of all the cities there are"), "18")) > plain + 5);
            assert.ok(plain > (await chat({ max_tokens: 1 })).usage.prompt_tokens);
        });
    });
}

describe("templates without a known way", () => {
    for (const model of Object.keys(foreign))
        it(`${model} refuses tools`, async () => {
            await assert.rejects(client.chat.completions.create({ model, messages: ask, tools, max_tokens: 1 }), ({ status, param, message }) => status === 400 && param === "tools" && message.includes("no place for tools"));
        });

    it("gemma is told of tools only where there are any, and of no system message", async () => {
        const size = async (more) => (await client.chat.completions.create({ model: "gemma", messages: ask, max_tokens: 1, ...more })).usage.prompt_tokens;
        const plain = await size({});
        assert.ok((await size({ tools })) > plain + 100);
        assert.equal(await size({ tools, tool_choice: "none" }), plain);
        for (const more of [{}, { tools }])
            await assert.rejects(size({ messages: [{ role: "system", content: "Be brief." }, ...ask], ...more }), ({ status, message }) => status === 400 && message.includes("System role not supported"));
    });
});
