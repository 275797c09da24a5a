// Takes the pictures of the page in docs/ from a running server, with the answers its model gives:
//
//     RUVLLM_SERVER_URL=http://127.0.0.1:8080/ node page_shots.mjs [folder]
//
// RUVLLM_SERVER_KEY is the server's key, if it wants one. The model must be one that can chat; TinyLlama will do.
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const QUESTIONS = [
    ["What is a mutex good for? Answer in two sentences."],
    ["Name three rivers of Europe and the seas they flow into, as a list."],
    ["What does strlen do?", "Write a C function that reverses a string in place. Then explain it in a short list."],
];

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

const url = process.env.RUVLLM_SERVER_URL;
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
    await page.fill("#max_tokens", "250");
    await page.fill("#seed", "1");
    await page.keyboard.press("Escape");
    for (const chat of QUESTIONS) {
        await page.keyboard.press("Control+k");
        for (const question of chat) await ask(page, question);
    }
    const state = await context.storageState();
    await context.close();
    return state;
}

async function shoot(browser, storageState, { name, ...options }) {
    const context = await browser.newContext({ storageState, ...options });
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForSelector("#model:not([disabled])");
    await page.waitForSelector(".message.answer");
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
    const state = await converse(browser);
    for (const shot of SHOTS) await shoot(browser, state, shot);
} finally {
    await browser.close();
}
