// The server ends and begins again under load: no stream is dropped, no connection is lost.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { address, ask, figure, pick, requestBytes, sanitized, sleep, small, Wire } from "./load.mjs";
import { program, Server } from "./server.mjs";

const story = (more) => ({ model: "text", prompt: "Once upon a time", max_tokens: 120, ignore_eos: true, ...more });

describe("SIGTERM under load", () => {
    it("drops no stream and refuses what is new", async () => {
        const rounds = pick(2, 10);
        let whole = 0;
        let refused = 0;
        for (let round = 0; round < rounds; round++) {
            const server = await Server.start([`text=${small}`, "--threads", "1", "--drain", "120"]);
            const where = address(server);
            const wires = Array.from({ length: 40 }, (_, i) => {
                const wire = new Wire(where);
                wire.send(requestBytes("/v1/completions", story({ stream: i % 4 > 0, seed: i })));
                return wire;
            });
            const kept = new Wire(where); // a connection that idles
            kept.send(requestBytes("/healthz"));
            await kept.until(/ok|200/);
            // The streams have begun, and the others are computed meanwhile.
            for (const wire of wires.filter((_, i) => i % 4 > 0)) await wire.until(/data: /);
            server.child.kill("SIGTERM");
            await sleep(50);
            // Whoever comes now is not listened to any more: refused at once, not left hanging.
            const late = await ask(where, "/v1/completions", story({ max_tokens: 1 })).catch((error) => error);
            assert.ok(late.status === 503 || late.wire?.error || late.status === 0, `late: ${late.status}`);
            refused++;
            for (const [i, wire] of wires.entries()) {
                await wire.until(i % 4 > 0 ? /data: \[DONE\]/ : /"usage"/);
                assert.equal(wire.answer().status, 200, wire.text.slice(0, 200));
                assert.match(wire.text, i % 4 > 0 ? /data: \[DONE\]/ : /"finish_reason":"length"/, `stream ${i} was cut: ${wire.text.slice(-200)}`);
                whole++;
            }
            assert.deepEqual(await server.ended, { code: 0, signal: null });
            await server.stop();
        }
        figure("drain_streams_whole", `${whole}/${rounds * 40}`);
        figure("drain_late_refused", `${refused}/${rounds}`);
    });
});

describe("restarts with the socket of a service manager", () => {
    it("lose no connection", async () => {
        const restarts = pick(sanitized ? 3 : 6, 20);
        const manager = spawn("python3", [fileURLToPath(new URL("socket_manager.py", import.meta.url)), program, small, String(restarts)], { stdio: ["ignore", "pipe", "inherit"] });
        let said = "";
        manager.stdout.on("data", (bytes) => (said += bytes));
        const code = await new Promise((resolve) => manager.on("exit", resolve));
        process.stdout.write(said);
        assert.equal(code, 0, said);
        const value = (name) => Number(said.match(new RegExp(`^${name}=(\\d+)$`, "m"))[1]);
        assert.equal(value("restart_count"), restarts);
        assert.equal(value("restart_lost"), 0);
        assert.ok(value("restart_answered") > restarts);
    });
});
