// Takes the pictures of the page in docs/ from a running server, with the answers its model gives:
//
//     RUVLLM_SERVER_URL=http://127.0.0.1:8080/ node page_shots.mjs [folder [learned]]
//
// RUVLLM_SERVER_KEY is the server's key, if it wants one. The model must be one that can chat; TinyLlama will do. A server
// that learns is voted on, and what it learned is in two more pictures; `learned`: in these alone.
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const QUESTIONS = [
    ["What is a mutex good for? Answer in two sentences."],
    ["Name three rivers of Europe and the seas they flow into, as a list."],
    ["What does strlen do?", "Write a C function that reverses a string in place. Then explain it in a short list."],
];

const BETTER = "A mutex lets one thread at a time into a piece of code. So data that threads share is not changed by two at once.";

const SHOTS = [
    { name: "page-light.png", colorScheme: "light", viewport: { width: 1280, height: 800 } },
    { name: "page-dark.png", colorScheme: "dark", viewport: { width: 1280, height: 800 } },
    {
        name: "page-phone.png",
        colorScheme: "light",
        viewport: { width: 390, height: 844 },
        isMobile: true,
        hasTouch: true,
    },
];

const LEARNED_SHOTS = [
    { name: "page-learned.png", colorScheme: "light", viewport: { width: 1100, height: 900 } },
    { name: "page-learned-dark.png", colorScheme: "dark", viewport: { width: 1100, height: 900 } },
];

const url = process.env.RUVLLM_SERVER_URL;
const onlyLearned = process.argv[3] === "learned";
const key = process.env.RUVLLM_SERVER_KEY;
const deps = process.env.RUVLLM_DEPS_DIR || join(homedir(), ".cache", "ruvllm-deps");
const folder = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), "..", "..", "docs");
const { chromium } = await import(pathToFileURL(join(deps, "node", "node_modules", "playwright-core", "index.mjs")));

async function ask(page, text) {
    await page.fill("#input", text);
    await page.press("#input", "Enter");
    await page.waitForSelector("#stop:not([hidden])");
    await page.waitForSelector("#send:not([hidden])");
}

/* Has the conversations and returns what the browser then remembers. */
async function converse(browser) {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(300000);
    await page.goto(url);
    if (key) {
        await page.check("#key-remember");
        await page.fill("#key-input", key);
        await page.press("#key-input", "Enter");
    }
    await page.waitForSelector("#model:not([disabled])");
    await page.click("#settings-open");
    await page.fill("#max_tokens", onlyLearned ? "48" : "250");
    if (!onlyLearned) await page.fill("#seed", "1");
    await page.keyboard.press("Escape");
    for (const chat of onlyLearned ? QUESTIONS.slice(0, 1) : QUESTIONS) {
        await page.keyboard.press("Control+k");
        for (const question of chat) await ask(page, question);
    }
    const learns = await page.isVisible("#learned-open");
    if (learns) await teach(page);
    const state = await context.storageState();
    await context.close();
    return { state, learns };
}

/* Judges answers to the last question again and again, and goes back once. */
async function teach(page) {
    const labels = ["Bad answer: less like this", "Good answer: more like this"];
    for (let i = 0; i < 14; i++) {
        await page.locator(".answer").last().getByLabel(labels[i % 3 === 0 ? 1 : 0]).click();
        await page.locator(".answer").last().locator(".vote-note", { hasText: "generation" }).waitFor();
        if (i === 7) await goBack(page);
        await page.locator(".answer").last().getByLabel("Regenerate this answer").click();
        await page.waitForSelector("#stop:not([hidden])");
        await page.waitForSelector("#send:not([hidden])");
    }
    await page.locator(".answer").last().getByLabel("Correct this answer").click();
    await page.fill("textarea.edit", BETTER);
    await page.getByRole("button", { name: "Teach this" }).click();
    await page.locator(".answer").last().locator(".vote-note", { hasText: "generation" }).waitFor();
}

async function goBack(page) {
    await page.click("#learned-open");
    await page.locator(".event").nth(2).getByRole("button", { name: "Back to here" }).click();
    await page.locator(".event", { hasText: "Back to generation" }).waitFor();
    await page.keyboard.press("Escape");
}

async function shoot(browser, storageState, { name, ...options }, showsLearned) {
    const context = await browser.newContext({ storageState, ...options });
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForSelector("#model:not([disabled])");
    await page.waitForSelector(".message.answer");
    if (showsLearned) {
        await page.click("#learned-open");
        await page.waitForSelector(".chart");
    }
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: join(folder, name) });
    await context.close();
}

if (!url) throw new Error("set RUVLLM_SERVER_URL to the address of a running `ruvllm serve`");
const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-background-networking"],
});
try {
    const { state, learns } = await converse(browser);
    for (const shot of onlyLearned ? [] : SHOTS) await shoot(browser, state, shot, false);
    for (const shot of learns ? LEARNED_SHOTS : []) await shoot(browser, state, shot, true);
} finally {
    await browser.close();
}
