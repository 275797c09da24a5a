// The web page in a real browser: node --test page.test.mjs
//
// Alone it drives the page against page_stub.mjs, which can also be broken, slow and hostile. With RUVLLM_SERVER_URL
// it makes the journey of a user (send, stream, stop, regenerate, reload) on that server instead; RUVLLM_SERVER_KEY is
// its key, if it wants one, and its model must take a second or two for an answer of RUVLLM_SERVER_MAX_TOKENS (200)
// tokens, so that there is something to stop.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { startStub } from "./page_stub.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, "..", "..", "apps", "server", "page");
const deps = process.env.RUVLLM_DEPS_DIR || join(homedir(), ".cache", "ruvllm-deps");
const driver = join(deps, "node", "node_modules", "playwright-core", "index.mjs");
const realUrl = process.env.RUVLLM_SERVER_URL;
const realKey = process.env.RUVLLM_SERVER_KEY;

if (!existsSync(driver)) throw new Error(`'${driver}' is not there; run \`make setup\``);
const { chromium } = await import(pathToFileURL(driver));

let browser, stub, context, page;
let complaints; // errors of the page itself: exceptions, refused by the policy

before(async () => {
    browser = await chromium.launch({
        executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-background-networking"],
    });
    stub = realUrl ? null : await startStub(folder);
});

after(async () => {
    await browser?.close();
    await stub?.close();
});

/*
 * A fresh profile for each test. A failed fetch is the browser's own message and expected where a test makes one fail.
 */
async function openPage(options = {}) {
    context = await browser.newContext({ viewport: { width: 1200, height: 800 }, acceptDownloads: true, ...options });
    page = await context.newPage();
    page.setDefaultTimeout(realUrl ? 60000 : 5000);
    complaints = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
        if (message.type() === "error" && !message.text().includes("Failed to load resource"))
            complaints.push(message.text());
    });
    page.on("request", (request) => {
        const origin = new URL(realUrl || stub.url).origin;
        if (!request.url().startsWith(origin) && !request.url().startsWith("blob:"))
            complaints.push(`asked for ${request.url()}`);
    });
    await page.goto(realUrl || stub.url);
    await page.waitForFunction(() => document.getElementById("title") !== null);
}

async function closePage() {
    await context.close();
    assert.deepEqual(complaints, [], "the page had errors of its own");
}

const ready = () => page.waitForSelector("#model:not([disabled])");
const answers = () => page.locator(".message.answer");
const lastAnswer = () => answers().last().locator(".body");
const stats = () => answers().last().locator(".stats");

async function sendText(text) {
    await page.fill("#input", text);
    await page.press("#input", "Enter");
}

/* Waits until nothing is coming any more. */
async function idle() {
    await page.waitForSelector("#send:not([hidden])");
}

async function ask(text) {
    await sendText(text);
    await page.waitForSelector("#messages[aria-busy=false]");
    await idle();
}

/* ---- the journey: on the stub and on a real server ---- */

describe("a user's way through the page", () => {
    beforeEach(async () => {
        stub?.reset({ answer: "one two three four five six seven eight nine ten ".repeat(8), pauseMs: 20 });
        await openPage();
        if (realKey) {
            await page.fill("#key-input", realKey);
            await page.press("#key-input", "Enter");
        }
        await ready();
        if (realUrl) await limitAnswers();
    });
    afterEach(closePage);

    /* A model left to itself may fill its whole context, which is no help in a test. */
    async function limitAnswers() {
        await page.click("#settings-open");
        await page.fill("#max_tokens", process.env.RUVLLM_SERVER_MAX_TOKENS || "200");
        await page.keyboard.press("Escape");
    }

    test("an answer is streamed, and its speed is measured", async () => {
        await sendText("Tell me a story about a small boat.");
        await page.waitForSelector("#stop:not([hidden])");
        await page.waitForFunction(() => document.querySelector(".answer .body")?.textContent.length > 0);
        const early = (await lastAnswer().textContent()).length;
        await idle();
        assert.ok((await lastAnswer().textContent()).length > early, "text was added after the first piece");
        assert.match(await stats().textContent(), /\d\stokens · [\d.]+\stokens\/s · first\safter\s\d/);
        assert.match(await page.textContent("#context-text"), /^[\d,.]+ \/ [\d,.]+$/);
        assert.equal(await page.textContent("#title"), "Tell me a story about a small boat.");
        assert.match(await page.textContent("#announce"), /^Answer: \S/);
    });

    test("Escape stops an answer and what came is kept", async () => {
        await sendText("Tell me a very long story.");
        await page.waitForFunction(() => document.querySelector(".answer .body")?.textContent.length > 0);
        await page.keyboard.press("Escape");
        await idle();
        assert.match(await stats().textContent(), /^Stopped/);
        const text = await lastAnswer().textContent();
        assert.ok(text.length > 0);
        await page.waitForTimeout(300);
        assert.equal(await lastAnswer().textContent(), text, "nothing comes after the stop");
    });

    test("the last answer is made again in its place", async () => {
        await ask("First question");
        await ask("Second question");
        await answers().last().getByLabel("Regenerate this answer").click();
        await page.waitForSelector("#stop:not([hidden])");
        await idle();
        assert.equal(await answers().count(), 2);
        assert.equal(await page.locator(".message.user").count(), 2);
        assert.match(await stats().textContent(), /token/);
    });

    test("a reload keeps the open session and goes on in it", async () => {
        await ask("Remember this");
        const before = await lastAnswer().textContent();
        await page.reload();
        await ready();
        assert.equal(await lastAnswer().textContent(), before);
        assert.equal(await page.textContent(".message.user .body"), "Remember this");
        assert.equal(await page.textContent("#title"), "Remember this");
        assert.equal(await page.locator("#sessions .open[aria-current]").textContent(), "Remember this");
        await ask("And this");
        assert.equal(await answers().count(), 2);
    });

    test("a deleted conversation is gone here and on the server", async () => {
        await ask("To be deleted");
        await page.focus("#sessions .open[aria-current]");
        await page.keyboard.press("Delete");
        await page.click("#confirm-yes");
        await page.waitForSelector("#welcome:not([hidden])");
        await page.reload();
        await ready();
        assert.equal(await page.locator("#sessions .open", { hasText: "To be deleted" }).count(), 0);
        if (stub) assert.equal(stub.sessions.size, 0);
    });
});

if (!realUrl) {
    /* ---- the conversation in detail ---- */

    describe("the conversation", () => {
        beforeEach(async () => {
            stub.reset();
            await openPage();
            await ready();
        });
        afterEach(closePage);

        test("the whole conversation and the session's id are sent, and no field that was not set", async () => {
            await ask("one");
            await ask("two");
            const [first, second] = stub.chats;
            assert.deepEqual(Object.keys(first).sort(), ["messages", "model", "session", "stream", "stream_options"]);
            assert.match(first.session, /^[A-Za-z0-9_-]{1,64}$/);
            assert.equal(second.session, first.session);
            assert.deepEqual(
                second.messages.map((message) => message.role),
                ["user", "assistant", "user"],
            );
        });

        test("without learning there is nothing to vote with", async () => {
            await ask("one");
            assert.equal(await answers().last().getByLabel("Good answer: more like this").isVisible(), false);
        });

        test("a vote is sent for the answer, told, kept over a reload, and taken back", async () => {
            stub.reset({ learns: true, keepsLog: false });
            await page.reload();
            await ready();
            await ask("one");
            await answers().last().getByLabel("Bad answer: less like this").click();
            await page.waitForFunction(() => document.querySelector(".vote-note").textContent !== "");
            assert.deepEqual(stub.votes, [{ response_id: "chatcmpl-1", score: 0 }]);
            assert.equal(await page.textContent(".vote-note"), "Learned: generation 1");
            await page.reload();
            await ready();
            const bad = answers().last().getByLabel("Bad answer: less like this");
            assert.equal(await bad.getAttribute("aria-pressed"), "true");
            await answers().last().getByRole("button", { name: "Undo" }).click();
            await page.waitForFunction(() => document.querySelector(".vote-note").textContent === "");
            assert.deepEqual(stub.votes[1], { model: "stub-small", generation: 0, what: "rollback" });
            assert.equal(await bad.getAttribute("aria-pressed"), "false");
        });

        test("what was said while the database was away takes nothing else back with it", async () => {
            stub.reset({ learns: true });
            await page.reload();
            await ready();
            await ask("one");
            stub.behaviour.spools = true;
            await answers().first().getByLabel("Good answer: more like this").click();
            await answers().first().locator(".vote-note", { hasText: "generation 1" }).waitFor();
            stub.behaviour.spools = false;
            await ask("two");
            await answers().last().getByLabel("Bad answer: less like this").click();
            await answers().last().locator(".vote-note", { hasText: "generation 2" }).waitFor();
            await answers().first().getByRole("button", { name: "Undo" }).click();
            await answers().first().locator(".vote-note", { hasText: "database was away" }).waitFor();
            assert.deepEqual(stub.votes.filter(({ what }) => what), []);
        });

        test("a server with a log forgets the one vote that is taken back", async () => {
            stub.reset({ learns: true });
            await page.reload();
            await ready();
            await ask("one");
            await ask("two");
            await answers().first().getByLabel("Good answer: more like this").click();
            await answers().last().getByLabel("Bad answer: less like this").click();
            await answers().last().locator(".vote-note", { hasText: "generation 2" }).waitFor();
            await answers().first().getByRole("button", { name: "Undo" }).click();
            await answers().first().locator(".vote-note:empty").waitFor({ state: "attached" });
            assert.deepEqual(stub.votes[2], { model: "stub-small", event: 1, what: "forget" });
            assert.equal(await answers().last().locator(".vote-note").textContent(), "Learned: generation 2");
        });

        test("who has said two things takes back one after the other", async () => {
            stub.reset({ learns: true });
            await page.reload();
            await ready();
            await ask("one");
            const good = answers().last().getByLabel("Good answer: more like this");
            const undo = answers().last().getByRole("button", { name: "Undo" });
            const note = (text) => page.locator(".vote-note", { hasText: text }).waitFor();
            await good.click();
            await note("generation 1");
            await answers().last().getByLabel("Correct this answer").click();
            await page.fill("textarea.edit", "Good day.");
            await page.getByRole("button", { name: "Teach this" }).click();
            await note("generation 2");
            assert.equal(await good.getAttribute("aria-pressed"), "false");
            await page.reload();
            await ready();
            await undo.click();
            await note("generation 1");
            assert.equal(await lastAnswer().textContent(), "The stub says hello.");
            assert.equal(await good.getAttribute("aria-pressed"), "true");
            await undo.click();
            await page.locator(".vote-note:empty").waitFor({ state: "attached" });
            assert.deepEqual(stub.votes.slice(2), [{ model: "stub-small", event: 2, what: "forget" }, { model: "stub-small", event: 1, what: "forget" }]);
        });

        test("an answer is corrected, shows the better words, and has its own back", async () => {
            stub.reset({ learns: true });
            await page.reload();
            await ready();
            await ask("one");
            await answers().last().getByLabel("Correct this answer").click();
            assert.equal(await page.inputValue("textarea.edit"), "The stub says **hello**.");
            await page.keyboard.press("Escape");
            assert.equal(await lastAnswer().isVisible(), true);
            await answers().last().getByLabel("Correct this answer").click();
            await page.fill("textarea.edit", "Say *good day*.");
            await page.getByRole("button", { name: "Teach this" }).click();
            await page.locator(".vote-note", { hasText: "generation 1" }).waitFor();
            assert.deepEqual(stub.votes, [{ response_id: "chatcmpl-1", correction: "Say *good day*." }]);
            assert.equal(await lastAnswer().textContent(), "Say good day.");
            await page.reload();
            await ready();
            assert.equal(await lastAnswer().textContent(), "Say good day.");
            await ask("two");
            assert.equal(stub.chats.at(-1).messages[1].content, "Say *good day*."); // goes on from there
            await answers().first().getByRole("button", { name: "Undo" }).click();
            await answers().first().locator(".body", { hasText: "The stub says hello." }).waitFor();
            assert.deepEqual(stub.votes[1], { model: "stub-small", event: 1, what: "forget" });
        });

        test("a correction that is refused leaves the answer as it was", async () => {
            stub.reset({ learns: true });
            await page.reload();
            await ready();
            await ask("one");
            stub.paused = true;
            await answers().last().getByLabel("Correct this answer").click();
            await page.fill("textarea.edit", "Better.");
            await page.press("textarea.edit", "Enter");
            await page.locator(".vote-note", { hasText: "paused" }).waitFor();
            assert.equal(await lastAnswer().textContent(), "The stub says hello.");
        });

        test("a vote that is refused says why", async () => {
            stub.reset({ learns: true });
            await page.reload();
            await ready();
            await ask("one");
            stub.behaviour.learns = false;
            await answers().last().getByLabel("Good answer: more like this").click();
            await page.waitForFunction(() => document.querySelector(".vote-note").textContent !== "");
            assert.match(await page.textContent(".vote-note"), /does not learn/);
        });

        test("an edited message replaces what followed it", async () => {
            await ask("one");
            await ask("two");
            await page.locator(".message.user").first().hover();
            await page.locator(".message.user").first().getByLabel("Edit and send again").click();
            await page.fill("textarea.edit", "other");
            await page.press("textarea.edit", "Enter");
            await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
            await idle();
            assert.deepEqual(stub.chats.at(-1).messages, [{ role: "user", content: "other" }]);
            assert.equal(await page.textContent(".message.user .body"), "other");
        });

        test("Shift+Enter begins a line and Enter sends", async () => {
            await page.focus("#input");
            await page.keyboard.type("one");
            await page.keyboard.press("Shift+Enter");
            await page.keyboard.type("two");
            await page.keyboard.press("Enter");
            await idle();
            assert.equal(stub.chats[0].messages[0].content, "one\ntwo");
        });

        test("what the user writes is shown as it was written", async () => {
            await ask("<b>no</b> *stars*");
            assert.equal(await page.textContent(".message.user .body"), "<b>no</b> *stars*");
            assert.equal(await page.locator(".message.user .body *").count(), 0);
        });

        test("sampling settings and the system prompt go into the request", async () => {
            await page.click("#settings-open");
            await page.fill("#temperature", "0.25");
            await page.fill("#top_k", "40");
            await page.fill("#seed", "7");
            await page.fill("#min_p", "3");
            assert.match(await page.textContent("#min_p-error"), /from 0 to 1/);
            await page.fill("#system", "Be brief.");
            await page.keyboard.press("Escape");
            await page.selectOption("#model", "stub-large");
            await ask("one");
            const { temperature, top_k, seed, min_p, messages, model } = stub.chats[0];
            assert.deepEqual(
                { temperature, top_k, seed, min_p, model },
                { temperature: 0.25, top_k: 40, seed: 7, min_p: undefined, model: "stub-large" },
            );
            assert.deepEqual(messages[0], { role: "system", content: "Be brief." });
        });

        test("conversations are listed, renamed and walked through by keys", async () => {
            await ask("first chat");
            await page.keyboard.press("Control+k");
            await ask("second chat");
            await page.focus("#sessions .open[tabindex='0']");
            await page.keyboard.press("ArrowDown");
            assert.equal(await page.evaluate(() => document.activeElement.textContent), "first chat");
            await page.keyboard.press("F2");
            await page.keyboard.type("renamed");
            await page.keyboard.press("Enter");
            await page.keyboard.press("Enter");
            assert.equal(await page.textContent("#title"), "renamed");
            await page.reload();
            await ready();
            assert.equal(await page.textContent("#title"), "renamed");
        });

        test("a conversation of another browser is opened from the server", async () => {
            await ask("kept on the server");
            await closePage();
            await openPage();
            await ready();
            await page.click("#sessions .open");
            await page.waitForSelector(".message.answer");
            assert.equal(await page.textContent(".message.user .body"), "kept on the server");
        });

        test("a conversation is exported as Markdown and as JSON", async () => {
            await ask("Export me");
            const files = {};
            for (const kind of ["markdown", "json"]) {
                await page.click("#export summary");
                const [download] = await Promise.all([page.waitForEvent("download"), page.click(`#export-${kind}`)]);
                files[download.suggestedFilename()] = readFileSync(await download.path(), "utf8");
            }
            assert.match(
                files["Export-me.md"],
                /^# Export me\n\n\*\*You\*\*\n\n> Export me\n\n\*\*stub-small\*\*\n\nThe stub says/,
            );
            assert.equal(JSON.parse(files["Export-me.json"]).messages.length, 2);
        });

        test("switching away from an answer stops it and keeps what came", async () => {
            stub.behaviour.pauseMs = 30;
            stub.behaviour.answer = "words and words ".repeat(50);
            await sendText("long one");
            await page.waitForFunction(() => document.querySelector(".answer .body")?.textContent.length > 0);
            await page.keyboard.press("Control+k");
            assert.equal(await page.locator(".message").count(), 0);
            await page.click("#sessions .open");
            assert.match(await stats().textContent(), /^Stopped/);
        });

        test("the answer after one that was left comes word by word too", async () => {
            stub.behaviour.pauseMs = 30;
            stub.behaviour.answer = "words and words ".repeat(50);
            await page.evaluate(() => {
                window.requestAnimationFrame = (draw) => window.setTimeout(draw, 400); // words come sooner
                window.cancelAnimationFrame = (frame) => window.clearTimeout(frame);
            });
            await sendText("long one");
            await page.waitForFunction(() => document.querySelector(".answer .body")?.textContent.length > 0);
            await page.waitForTimeout(100); // the next words wait to be drawn
            await page.keyboard.press("Control+k");
            assert.equal(await page.locator(".message").count(), 0);
            await sendText("another one");
            await page.waitForFunction(() => document.querySelector(".answer .body")?.textContent.length > 0);
            assert.equal(await page.locator("#stop").isVisible(), true, "while it still comes");
        });

        test("a page closed in the middle of an answer shows what came", async () => {
            stub.behaviour.pauseMs = 30;
            stub.behaviour.answer = "words and words ".repeat(50);
            await sendText("long one");
            await page.waitForFunction(() => document.querySelector(".answer .body")?.textContent.length > 20);
            await page.reload();
            await ready();
            assert.match(await lastAnswer().textContent(), /^words/);
            assert.match(await stats().textContent(), /^(Stopped|Cut\soff)/);
        });

        test("the reader who has gone up is left there", async () => {
            stub.behaviour.answer = "line\n\n".repeat(200);
            await ask("fill the page");
            stub.behaviour.pauseMs = 5;
            await sendText("more");
            await page.waitForFunction(
                () => document.querySelectorAll(".answer")[1]?.querySelector(".body").childElementCount > 3,
            );
            await page.hover("#scroller");
            await page.mouse.wheel(0, -3000);
            await page.waitForSelector("#jump:not([hidden])");
            const top = await page.evaluate(() => document.getElementById("scroller").scrollTop);
            await page.waitForTimeout(150);
            assert.equal(await page.evaluate(() => document.getElementById("scroller").scrollTop), top);
            await page.click("#jump");
            await page.keyboard.press("Escape");
            await idle();
        });

        test("a server without sessions is told none and the page says so", async () => {
            stub.behaviour.keepsSessions = false;
            await page.reload();
            await ready();
            await page.waitForSelector("#local-only:not([hidden])");
            await ask("one");
            assert.equal("session" in stub.chats[0], false);
        });
    });

    /* ---- what was learned ---- */

    describe("the panel of what was learned", () => {
        const events = () => page.locator("#learned-events .event");
        const openPanel = async () => {
            await page.click("#learned-open");
            await page.waitForSelector("#learned:not(.busy) #learned-facts dd");
        };
        const say = (...scores) => scores.forEach((score) => stub.addEvent({ kind: "vote", score, gain: 0.1, kl: 0.01 }));
        const settled = () => page.waitForSelector("#learned:not(.busy)");

        beforeEach(async () => {
            stub.reset({ learns: true });
            await openPage();
            await ready();
        });
        afterEach(closePage);

        test("is offered where the server learns, and nowhere else", async () => {
            assert.equal(await page.locator("#learned-open").isVisible(), true);
            stub.behaviour.learns = false;
            await page.reload();
            await ready();
            await page.waitForTimeout(50);
            assert.equal(await page.locator("#learned-open").isVisible(), false);
        });

        test("says that nothing was learned yet", async () => {
            await openPanel();
            assert.match(await page.textContent("#learned-none"), /^Nothing yet/);
            assert.equal(await page.locator("#learned-chart").isVisible(), false);
            assert.equal(await page.locator("#learned-export").isDisabled(), true);
        });

        test("has a timeline and a chart of what came of each vote", async () => {
            say(1, 0, 1);
            await openPanel();
            assert.equal(await events().count(), 3);
            assert.match(await events().first().textContent(), /^Good answer3now.*gained\s0\.1 · moved\s0\.01/);
            assert.match(await events().nth(1).textContent(), /^Bad answer2/);
            assert.equal(await page.locator(".chart .gain").count(), 3);
            assert.equal(await page.locator("#learned-facts dd").first().textContent(), "3");
        });

        test("goes back to a generation, and marks what that undid", async () => {
            say(1, 0, 1);
            await openPanel();
            await events().nth(2).getByRole("button", { name: "Back to here" }).click();
            await events().filter({ hasText: "Back to generation 1" }).waitFor();
            assert.deepEqual(stub.votes, [{ model: "stub-small", generation: 1, what: "rollback" }]);
            assert.equal(await page.locator("#learned-events .undone").count(), 2);
            assert.equal(await page.locator(".chart .way-back").count(), 1);
            await page.click("#learned-reset");
            await events().filter({ hasText: "Back to the model as it came" }).waitFor();
            assert.equal(await page.locator("#learned-events .undone").count(), 4);
        });

        test("marks what a flood's way back undid, and tells it from a check that changed nothing", async () => {
            say(1, 0, 1);
            stub.addEvent({ kind: "gate", about: 1, reason: "votes became all alike: learning pauses" });
            stub.addEvent({ kind: "gate", generation: null });
            stub.behaviour.heldBack = 64;
            await openPanel();
            assert.match(await page.textContent("#learned-held-back"), /the next 64 teach nothing/);
            assert.match(await events().nth(0).textContent(), /^Consolidated, and left as it was/);
            assert.match(await events().nth(1).textContent(), /^Back to generation 14.*all alike/);
            assert.deepEqual(
                await events().evaluateAll((list) => list.map((event) => event.classList.contains("undone"))),
                [false, false, true, true, false],
            );
            assert.equal(await page.locator(".chart .way-back").count(), 1);
            assert.equal(await page.locator(".chart .gain.undone").count(), 2);
        });

        test("forgets one piece of feedback after asking", async () => {
            say(1, 0);
            await openPanel();
            await events().nth(1).getByRole("button", { name: "Forget this" }).click();
            await page.click("#confirm-no");
            assert.deepEqual(stub.votes, []);
            await events().nth(1).getByRole("button", { name: "Forget this" }).click();
            assert.match(await page.textContent("#confirm-text"), /cannot be undone/);
            await page.click("#confirm-yes");
            await events().filter({ hasText: "Forgotten" }).waitFor();
            assert.deepEqual(stub.votes, [{ model: "stub-small", event: 1, what: "forget" }]);
            assert.equal(await events().nth(1).getByRole("button").count(), 0);
        });

        test("what is forgotten there is no longer shown on its answer", async () => {
            await ask("one");
            await answers().last().getByLabel("Good answer: more like this").click();
            await page.locator(".vote-note", { hasText: "generation 1" }).waitFor();
            await openPanel();
            await events().first().getByRole("button", { name: "Forget this" }).click();
            await page.click("#confirm-yes");
            await events().filter({ hasText: "Forgotten" }).waitFor();
            await page.keyboard.press("Escape");
            assert.equal(await page.textContent(".vote-note"), "");
        });

        test("pauses, goes on, and takes what was learned along", async () => {
            say(1, 1);
            await openPanel();
            await page.click("#learned-pause");
            await page.getByRole("button", { name: "Go on learning" }).waitFor();
            assert.equal(stub.paused, true);
            await settled();
            await page.click("#learned-pause");
            await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
            assert.equal(stub.paused, false);
            await settled();
            const [download] = await Promise.all([page.waitForEvent("download"), page.click("#learned-export")]);
            assert.equal(download.suggestedFilename(), "stub-small-learned.gguf");
            assert.equal(readFileSync(await download.path(), "utf8"), "GGUF of the stub");
        });

        test("long histories come in pages", async () => {
            say(...Array.from({ length: 120 }, (_, i) => i % 2));
            await openPanel();
            assert.equal(await events().count(), 50);
            await page.click("#learned-more");
            await page.waitForFunction(() => document.querySelectorAll("#learned-events .event").length === 100);
            await settled();
            await page.click("#learned-more");
            await page.waitForFunction(() => document.querySelectorAll("#learned-events .event").length === 120);
            assert.equal(await page.locator("#learned-more").isVisible(), false);
        });

        test("words of a correction are shown as they were written", async () => {
            stub.addEvent({ kind: "correction", score: 1, gain: 0.1, kl: 0.01, correction: "<b>no</b> *stars*" });
            await openPanel();
            assert.equal(await page.textContent("#learned-events .words"), "<b>no</b> *stars*");
            assert.equal(await page.locator("#learned-events .words *").count(), 0);
        });

        test("what a training run came to is told in words", async () => {
            stub.addEvent({ kind: "deep", reason: '{"held_out_before":3.12,"held_out_after":2.2,"forgetting":0.012,"votes":1,"corrections":5,"pairs":0,"steps":40}' });
            stub.addEvent({ kind: "deep", reason: "{not JSON" });
            await openPanel();
            assert.match(await events().nth(1).textContent(), /^Trained1.*on 1 vote, 5 corrections: held-out feedback 3\.1 → 2\.2 nats a token, forgotten 1\.2 %/);
            assert.match(await events().nth(0).textContent(), /\{not JSON/);
        });

        test("a server without a log has no timeline, and trouble is told", async () => {
            stub.behaviour.keepsLog = false;
            await openPanel();
            assert.match(await page.textContent("#learned-none"), /keeps no log/);
            say(1);
            await page.keyboard.press("Escape");
            await openPanel();
            stub.behaviour.learns = false;
            await page.click("#learned-reset");
            await page.waitForSelector("#learned-trouble:not([hidden])");
            assert.match(await page.textContent("#learned-trouble"), /does not learn/);
        });
    });

    /* ---- trouble ---- */

    describe("trouble", () => {
        beforeEach(async () => {
            stub.reset();
            await openPage();
        });
        afterEach(closePage);

        const noticeText = async () => {
            await page.waitForSelector("#notice:not([hidden])");
            return page.textContent("#notice");
        };

        test("a server that asks for a key gets one, kept for this tab only", async () => {
            stub.behaviour.key = "sk-right";
            await page.reload();
            await page.waitForSelector("#key[open]");
            await page.fill("#key-input", "sk-wrong");
            await page.press("#key-input", "Enter");
            await page.waitForSelector("#key-wrong:not([hidden])");
            await page.fill("#key-input", "sk-right");
            await page.press("#key-input", "Enter");
            await ready();
            await ask("with a key");
            assert.match(await lastAnswer().textContent(), /stub says hello/);
            assert.equal(await page.evaluate(() => localStorage.getItem("ruvllm.key")), null);
            assert.equal(page.url(), stub.url, "the key is not in the address");
            await page.reload();
            await ready();
        });

        test("a key is remembered when that is wanted, and forgotten with the conversations", async () => {
            stub.behaviour.key = "sk-right";
            await page.reload();
            await page.waitForSelector("#key[open]");
            await page.check("#key-remember");
            await page.fill("#key-input", "sk-right");
            await page.press("#key-input", "Enter");
            await ready();
            await ask("secret words");
            assert.equal(await page.evaluate(() => localStorage.getItem("ruvllm.key")), "sk-right");
            await page.click("#settings-open");
            await page.click("#key-forget");
            await page.waitForSelector("#key[open]");
            const left = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
            assert.doesNotMatch(left, /secret words|sk-right/);
        });

        test("a key that is taken away in the middle is asked for and the question is sent again", async () => {
            await ready();
            stub.behaviour.failures.push({ status: 401 });
            await sendText("still there?");
            await page.waitForSelector("#key[open]");
            await page.fill("#key-input", "sk-new");
            await page.press("#key-input", "Enter");
            await page.waitForFunction(() => document.querySelector(".answer .stats")?.textContent);
            assert.equal(await page.locator(".message").count(), 2);
        });

        test("a busy server is asked again after its Retry-After", async () => {
            await ready();
            stub.behaviour.failures.push({
                status: 429,
                message: "the queue is full",
                headers: { "Retry-After": "2" },
            });
            await sendText("busy?");
            assert.match(await noticeText(), /too much to do.*The server says: the queue is full.*Try again in 2 s/s);
            assert.equal(await page.locator("#notice button").isDisabled(), true);
            await page.waitForSelector("#notice button:not([disabled])");
            await page.click("#notice button");
            await page.waitForFunction(() => document.querySelector(".answer .stats")?.textContent);
            assert.equal(await page.locator("#notice").isHidden(), true);
            assert.equal(stub.chats.length, 2);
        });

        test("a full context is told with what to do, and the question is kept", async () => {
            await ready();
            const message = "the prompt has 5000 tokens and the context 4096";
            stub.behaviour.failures.push({ status: 400, message, error: { code: "context_length_exceeded" } });
            await sendText("too long");
            assert.match(await noticeText(), /does not fit.*Start a new chat.*5000 tokens and the context 4096/s);
            assert.equal(await page.textContent(".message.user .body"), "too long");
        });

        test("a stream that breaks keeps what came and says so", async () => {
            await ready();
            Object.assign(stub.behaviour, { answer: "word ".repeat(20), cutAfter: 5 });
            await sendText("cut me off");
            assert.match(await noticeText(), /ended before the answer did/);
            assert.match(await stats().textContent(), /^Cut\soff/);
            assert.match(await lastAnswer().textContent(), /^word/);
            stub.behaviour.cutAfter = -1;
            await page.click("#notice button");
            await page.waitForFunction(() => /token/.test(document.querySelector(".answer .stats")?.textContent));
            assert.equal(await answers().count(), 1);
        });

        test("a stream that ends without saying why is cut off too", async () => {
            await ready();
            Object.assign(stub.behaviour, { answer: "word ".repeat(20), endAfter: 5 });
            await sendText("cut me off");
            assert.match(await noticeText(), /ended before the answer did/);
        });

        test("an error event within a stream is an error, not an answer", async () => {
            await ready();
            Object.assign(stub.behaviour, { answer: "word ".repeat(20), errorAfter: 5 });
            await sendText("fall over");
            assert.match(await noticeText(), /The server says: the model fell over/);
        });

        test("a slow answer can be stopped before its first word and asked for again", async () => {
            await ready();
            stub.serveChat = async (body, response) => {
                stub.chats.push(body);
                response.on("close", () => stub.n_aborted++);
                response.writeHead(200, { "Content-Type": "text/event-stream" });
                response.write(": ping\n\n");
            };
            await sendText("slow");
            await page.click("#stop");
            assert.match(await noticeText(), /Stopped before the answer began/);
            assert.equal(await page.locator(".message").count(), 1);
            delete stub.serveChat;
            stub.behaviour.answer = "there";
            await page.click("#notice button");
            await page.waitForFunction(() => document.querySelector(".answer .stats")?.textContent);
            assert.equal(await lastAnswer().textContent(), "there");
            assert.equal(stub.n_aborted, 1);
        });

        test("a server that is gone is told, and the same question works when it is back", async () => {
            await ready();
            const { port } = stub;
            await stub.close();
            await sendText("anybody?");
            assert.match(await noticeText(), /does not answer.*ruvllm serve is running/s);
            const again = await startStub(folder);
            await again.close();
            stub = again;
            stub.server.removeAllListeners("close");
            await stub.listen(port);
            await page.click("#notice button");
            await page.waitForFunction(() => document.querySelector(".answer .stats")?.textContent);
            assert.equal(await page.locator(".message").count(), 2);
        });
    });

    /* ---- Markdown, in the page's own modules ---- */

    describe("Markdown", () => {
        before(async () => {
            stub.reset();
            await openPage();
        });
        after(closePage);

        /* The HTML of a text, and how long it took. The page's copy buttons are left out to keep the cases short. */
        const render = (text, times = 1) =>
            page.evaluate(
                async ([source, n]) => {
                    const { renderMarkdown } = await import("/page/markdown.js");
                    const parent = document.createElement("div");
                    const text = n > 1 ? source.repeat(n) : source;
                    const began = performance.now();
                    renderMarkdown(parent, text);
                    const ms = performance.now() - began;
                    let depth = 0;
                    for (let node = parent; node; node = node.lastElementChild) depth++;
                    parent.querySelectorAll("button").forEach((button) => button.remove());
                    return { html: parent.innerHTML, ms, depth, text: parent.textContent.length };
                },
                [text, times],
            );
        const html = async (text) => (await render(text)).html;

        const CASES = [
            ["paragraphs and line breaks", "a\nb\n\nc", "<p>a<br>b</p><p>c</p>"],
            ["headings", "# a\n###### b #\n#c", '<h3 class="level-1">a</h3><h6 class="level-6">b</h6><p>#c</p>'],
            [
                "bold, italic and struck",
                "**a** *b* ***c*** ~~d~~ __e__ _f_",
                "<p><strong>a</strong> <em>b</em> <em><strong>c</strong></em> <del>d</del> <strong>e</strong> <em>f</em></p>",
            ],
            ["nested emphasis", "**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"],
            ["marks that are text", "2 * 3 * 4 snake_case_name ** **", "<p>2 * 3 * 4 snake_case_name ** **</p>"],
            ["escapes", "\\*a\\* \\`b\\`", "<p>*a* `b`</p>"],
            ["inline code", "`a*b*` ``c`d`` `e", "<p><code>a*b*</code> <code>c`d</code> `e</p>"],
            [
                "fenced code",
                "```c\nint a;\n\n  *b*\n```\nend",
                '<figure class="code"><figcaption><span>c</span></figcaption><pre tabindex="0" aria-label="Code, c"><code>int a;\n\n  *b*</code></pre></figure><p>end</p>',
            ],
            ["a list", "- a\n- b\n  c\n\nd", "<ul><li>a</li><li>b<br>c</li></ul><p>d</p>"],
            [
                "nested lists",
                "1. a\n   - b\n     - c\n2. d",
                "<ol><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ol>",
            ],
            [
                "a list nested by two and by four spaces",
                "1. a\n  - b\n- c\n    - d",
                "<ol><li>a<ul><li>b</li></ul></li></ol><ul><li>c<ul><li>d</li></ul></li></ul>",
            ],
            [
                "a list that begins at five with a blank line in it",
                "5. a\n\n6. b",
                '<ol start="5"><li>a</li><li>b</li></ol>',
            ],
            ["an item with paragraphs", "- a\n\n  b", "<ul><li><p>a</p><p>b</p></li></ul>"],
            ["quotes", "> a\n> > b\n\nc", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>"],
            ["a rule", "a\n\n---\n\n* * *", "<p>a</p><hr><hr>"],
            [
                "a table",
                "| a | b |\n|---|--:|\n| `x|y` | **2** |",
                '<div class="table" tabindex="0" role="region" aria-label="Table"><table><thead><tr><th class="align-left" scope="col">a</th><th class="align-right" scope="col">b</th></tr></thead><tbody><tr><td class="align-left"><code>x|y</code></td><td class="align-right"><strong>2</strong></td></tr></tbody></table></div>',
            ],
            [
                "a link",
                '[*a* b](https://x.org/y_(z) "t").',
                '<p><a href="https://x.org/y_(z)" rel="noopener noreferrer" target="_blank"><em>a</em> b</a>.</p>',
            ],
            [
                "a bare address",
                "see https://x.org/a?b=c. (http://y.org)",
                '<p>see <a href="https://x.org/a?b=c" rel="noopener noreferrer" target="_blank">https://x.org/a?b=c</a>. (<a href="http://y.org" rel="noopener noreferrer" target="_blank">http://y.org</a>)</p>',
            ],
            [
                "mail",
                "[m](mailto:a@b.c)",
                '<p><a href="mailto:a@b.c" rel="noopener noreferrer" target="_blank">m</a></p>',
            ],
            ["brackets that are no link", "a[0] [b] [c] (d) **e**", "<p>a[0] [b] [c] (d) <strong>e</strong></p>"],
        ];
        for (const [name, source, wanted] of CASES) test(name, async () => assert.equal(await html(source), wanted));

        test("HTML stays text", async () => {
            const source = "<script>alert(1)</script> <img src=x onerror=alert(1)> **<b>**";
            const { html: made, text } = await render(source);
            assert.doesNotMatch(made, /<script|<img|<b>/);
            assert.equal(text, source.length - 4);
        });

        test("addresses that are no http, https or mailto are no links", async () => {
            const schemes = [
                "javascript:alert(1)",
                "JaVaScRiPt:alert(1)",
                "data:text/html,x",
                "vbscript:x",
                "file:///etc/passwd",
                "//x.org",
                "\u0001javascript:x",
                "java\tscript:x",
                " https://x",
            ];
            for (const scheme of schemes) assert.doesNotMatch(await html(`[x](${scheme})`), /<a/, scheme);
            assert.doesNotMatch(await html('[x](https://x.org"onmouseover="alert(1))'), /<a[^>]* onmouseover/);
        });

        test("an image is a link, and nothing is fetched", async () => {
            assert.equal(
                await html("![cat](https://x.org/cat.png)"),
                '<p><a href="https://x.org/cat.png" rel="noopener noreferrer" target="_blank">cat</a></p>',
            );
        });

        test("a fence that is never closed is code to the end", async () => {
            const { html: made } = await render("```\n# a\n<b>");
            assert.match(made, /<code># a\n&lt;b&gt;<\/code>/);
        });

        /*
         * Text that tempts a parser into looking at everything again and again. That would take minutes; the limit
         * leaves room for a slow machine, and for the 100,000 nodes that some of these rightly become.
         */
        const HOSTILE = {
            asterisks: "*",
            "asterisks with letters": "*a",
            "asterisks with spaces": "* ",
            "strong that never closes": "**a ",
            "strong that only closes": "a** ",
            "alternating marks": "*a _b ",
            "marks in marks": "*a **b ",
            underscores: "_",
            tildes: "~",
            "tildes and a backtick at the end": "~~~~",
            backticks: "`",
            "backticks of growing length": "` `` ``` ",
            brackets: "[",
            "closing brackets": "]",
            "empty links": "[](",
            "links in links": "[a](b",
            "broken addresses": "[x](((",
            quotes: ">",
            "quotes with spaces": "> ",
            "list marks": "- ",
            "nested numbers": "1. ",
            pipes: "|",
            "table rows": "|a|b|\n",
            tables: "a|b\n-|-\n",
            dashes: "-",
            hashes: "#",
            "hash and spaces": "# ",
            "new lines": "\n",
            "carriage returns": "\r",
            spaces: " ",
            tabs: "\t",
            backslashes: "\\",
            addresses: "http://",
            "addresses and brackets": "http://a)",
            fences: "```\n",
            "open fences": "~~~ a\n",
            "items and blanks": "- a\n\n\n",
            "angle brackets": "<",
            "lines of quotes": ">\n",
            separators: "# \u2028",
        };
        for (const [name, piece] of Object.entries(HOSTILE))
            test(`100 KB of ${name} are shown in time`, async () => {
                const { ms, depth } = await render(piece, Math.ceil(102400 / piece.length));
                assert.ok(ms < (piece === "*" ? 200 : 2000), `took ${ms} ms`);
                assert.ok(depth < 100, `made ${depth} levels of nodes`);
            });

        test("nesting 10,000 deep is cut and its text is kept", async () => {
            const ends = { "*a _b ": "c_ d* ", "*a **b ": "c** d* ", "[a ": "](https://x.org) " };
            for (const piece of ["> ", "- ", "*a ", "[", ...Object.keys(ends)]) {
                const end = (ends[piece] ?? "").repeat(10000);
                const { depth, text, ms } = await render(`${piece.repeat(10000)}end${end}`);
                assert.ok(depth < 100, `${depth} levels of '${piece}'`);
                assert.ok(text > 9000, `${text} characters of '${piece}'`);
                assert.ok(ms < 2000, `${ms} ms for '${piece}'`);
            }
        });

        test("a text shown piece by piece ends like the text shown at once", async () => {
            const sources = CASES.map(([, source]) => source);
            sources.push(
                sources.join("\n\n"),
                "a\n-\nb",
                "x | y\n- | -\n1 | 2",
                "```\na\r\nb\r\n```\r\nc\r\n",
                "- a\n\n      b\n\nc\td\n\te\n\nf",
            );
            const wrong = await page.evaluate(async (sources) => {
                const { MarkdownView, renderMarkdown } = await import("/page/markdown.js");
                return sources.filter((source) => {
                    const whole = document.createElement("div");
                    const grown = document.createElement("div");
                    const view = new MarkdownView(grown);
                    renderMarkdown(whole, source);
                    for (let n = 1; n <= source.length; n++) view.update(source.slice(0, n));
                    return whole.innerHTML !== grown.innerHTML;
                });
            }, sources);
            assert.deepEqual(wrong, []);
        });

        test("only the end of a growing text is built again", async () => {
            const kept = await page.evaluate(async () => {
                const { MarkdownView } = await import("/page/markdown.js");
                const parent = document.createElement("div");
                const view = new MarkdownView(parent);
                view.update("first\n\nsecond\n\nthird");
                const first = parent.firstChild;
                view.update("first\n\nsecond\n\nthird and\n\nfourth");
                return parent.firstChild === first && parent.childNodes.length === 4;
            });
            assert.equal(kept, true);
        });

        test("an answer of 100 KB is shown whole", async () => {
            const answer = "Some *words* and `code` in a line of text.\n\n- item\n\n";
            stub.reset({ answer: answer.repeat(2000), pieceLength: 64 });
            await page.reload();
            await ready();
            await sendText("long");
            await page.waitForFunction(() => document.querySelector(".answer .stats")?.textContent, null, {
                timeout: 60000,
            });
            assert.equal(await lastAnswer().locator("> *").count(), 4000);
        });
    });

    /* ---- looks ---- */

    describe("looks", () => {
        afterEach(closePage);

        const CONTRAST = () => {
            const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
            const rgba = (color) => {
                canvas.clearRect(0, 0, 1, 1);
                canvas.fillStyle = color;
                canvas.fillRect(0, 0, 1, 1);
                return canvas.getImageData(0, 0, 1, 1).data;
            };
            const light = (c) =>
                [0.2126, 0.7152, 0.0722].reduce((sum, k, i) => {
                    const v = c[i] / 255;
                    return sum + k * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                }, 0);
            const groundOf = (node) => {
                for (let at = node; at; at = at.parentElement) {
                    const color = rgba(getComputedStyle(at).backgroundColor);
                    if (color[3] === 255) return color;
                }
                return rgba("white");
            };
            const low = [];
            for (const node of document.querySelectorAll("body *")) {
                const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
                if (
                    !hasText ||
                    !node.checkVisibility({ opacityProperty: true }) ||
                    node.closest(".sr-only, .symbols, :disabled")
                )
                    continue;
                const [a, b] = [light(rgba(getComputedStyle(node).color)), light(groundOf(node))].sort((x, y) => y - x);
                const ratio = (a + 0.05) / (b + 0.05);
                if (ratio < 4.5)
                    low.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className} ${node.textContent.slice(0, 30)}`);
            }
            return low;
        };

        for (const colorScheme of ["light", "dark"])
            test(`text has enough contrast in ${colorScheme}`, async () => {
                stub.reset({
                    answer: "# Title\n\nText with `code` and [link](https://x.org).\n\n> quote\n\n```c\nint x;\n```\n\n|a|b|\n|-|-|\n|1|2|",
                    failures: [],
                });
                await openPage({ colorScheme, reducedMotion: "reduce" });
                await ready();
                await ask("Show it");
                stub.behaviour.failures.push({ status: 500, message: "broken" });
                await sendText("Again");
                await page.waitForSelector("#notice:not([hidden])");
                assert.deepEqual(await page.evaluate(CONTRAST), []);
                await page.click("#settings-open");
                assert.deepEqual(await page.evaluate(CONTRAST), []);
            });

        test("the theme can be changed, and stays", async () => {
            stub.reset();
            await openPage({ colorScheme: "light" });
            const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
            const light = await ground();
            await page.click("#theme");
            const dark = await ground();
            assert.notEqual(dark, light);
            await page.reload();
            assert.equal(await ground(), dark);
        });

        test("a phone of 360 pixels shows everything, and the list is a drawer", async () => {
            stub.reset({
                answer: `${"long".repeat(100)}\n\n\`\`\`\n${"wide ".repeat(60)}\n\`\`\`\n\n|${"column|".repeat(12)}\n|${"-|".repeat(12)}\n`,
            });
            await openPage({ viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true });
            await ready();
            await ask("Show it");
            const wide = await page.evaluate(() => [
                document.documentElement.scrollWidth,
                document.getElementById("scroller").scrollWidth - document.getElementById("scroller").clientWidth,
            ]);
            assert.deepEqual(wide, [360, 0]);
            assert.equal(await page.locator("#new-chat").isVisible(), false);
            await page.click("#drawer-open");
            await page.waitForSelector("#new-chat", { state: "visible" });
            assert.equal(await page.evaluate(() => document.activeElement.id), "drawer-close");
            await page.keyboard.press("Escape");
            assert.equal(await page.evaluate(() => document.activeElement.id), "drawer-open");
        });

        test("everything that can be pressed has a name, and the first stop of Tab is the skip link", async () => {
            stub.reset();
            await openPage();
            await ready();
            await ask("Show it");
            const nameless = await page.evaluate(() =>
                [...document.querySelectorAll("button, input, select, textarea, summary, a")]
                    .filter(
                        (node) => !(node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length),
                    )
                    .map((node) => node.outerHTML),
            );
            assert.deepEqual(nameless, []);
            await page.click(".brand h1");
            await page.keyboard.press("Shift+Tab");
            assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
            await page.keyboard.press("Enter");
            assert.equal(await page.evaluate(() => document.activeElement.id), "input");
        });

        test("the page is small", async () => {
            stub.reset();
            await openPage();
            const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
            assert.ok(bytes < 139264, `${bytes} bytes`);
        });
    });
}
