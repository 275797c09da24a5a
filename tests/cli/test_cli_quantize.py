"""quantize: the same bytes as llama-quantize where both choose the same type, models that still talk, clean failures."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from harness import DATA, MINIMIND, STORIES, STORIES_TINY, command_line, environment, main, run, run_json

DEPS = os.environ.get("RUVLLM_DEPS_DIR", os.path.expanduser("~/.cache/ruvllm-deps"))
LLAMA_QUANTIZE = os.path.join(DEPS, "tools", "bin", "llama-quantize")
STORY_TEXT = os.path.join(DATA, "text", "tinystories_val_100k.txt")


def tensors(path):
    """Name -> (type, digest of the bytes)."""
    described = run_json("info", path, "--tensors", "--json")["file"]["tensors"]
    with open(path, "rb") as file:
        data = file.read()
    return {t["name"]: (t["type"], hashlib.sha256(data[t["offset"]:t["offset"] + t["n_bytes"]]).hexdigest())
            for t in described}


def metadata(path):
    return run_json("info", path, "--metadata", "--json")["file"]["metadata"]


def perplexity(path):
    done = run("perplexity", path, "-f", STORY_TEXT, "--ctx", "128", "--chunks", "6", "--json", timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])["perplexity"]


class Quantize(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ruvllm-quantize-")
        self.out = os.path.join(self.folder, "out.gguf")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def quantize(self, source, kind, *options, out=None):
        done = run("quantize", source, out or self.out, kind, *options, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def assert_refused(self, args, *texts, code=1):
        done = run("quantize", *args)
        self.assertEqual(done.returncode, code, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr.decode())
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".partial")], [])

    def reference(self, source, kind, *options):
        """The same by llama-quantize."""
        if not os.access(LLAMA_QUANTIZE, os.X_OK):
            self.skipTest("llama-quantize is not there")
        path = os.path.join(self.folder, "reference.gguf")
        subprocess.run([LLAMA_QUANTIZE, *options, source, path, kind, "1"], check=True, capture_output=True)
        return path

    def test_pure_types_are_byte_for_byte_the_reference(self):
        for kind in ("Q8_0", "Q4_0", "Q5_0", "Q4_1", "Q5_1", "F16", "BF16"):
            self.quantize(STORIES, kind, "--pure", "--force")
            ours, theirs = tensors(self.out), tensors(self.reference(STORIES, kind, "--pure"))
            self.assertEqual(ours, theirs, kind)

    def test_mixes_are_the_reference_where_the_types_agree(self):
        for kind in ("Q4_K_M", "Q6_K"):
            self.quantize(MINIMIND, kind, "--force")
            ours, theirs = tensors(self.out), tensors(self.reference(MINIMIND, kind))
            self.assertEqual(set(ours), set(theirs))
            same = [name for name in ours if ours[name][0] == theirs[name][0]]
            self.assertGreater(len(same), len(ours) // 2)
            for name in same:
                self.assertEqual(ours[name], theirs[name], name)

    def test_the_mix_is_what_the_documents_say(self):
        self.quantize(MINIMIND, "Q4_K_M")
        types = {name: kind for name, (kind, _) in tensors(self.out).items()}
        self.assertEqual(types["token_embd.weight"], "q6_K")
        self.assertEqual([types["blk.%d.attn_v.weight" % i] for i in range(8)], ["q6_K"] * 2 + ["q4_K"] * 4 + ["q6_K"] * 2)
        self.assertEqual({types["blk.%d.attn_q.weight" % i] for i in range(8)}, {"q4_K"})
        self.assertEqual({types["blk.%d.attn_norm.weight" % i] for i in range(8)}, {"f32"})

    def test_metadata_is_kept_and_the_type_stated(self):
        self.quantize(STORIES, "Q4_0")
        before, after = metadata(STORIES), metadata(self.out)
        self.assertEqual(after.pop("general.file_type"), 2)
        self.assertEqual(after.pop("general.quantization_version"), 2)
        before.pop("general.file_type", None)
        before.pop("general.quantization_version", None)
        self.assertEqual(after, before)

    def test_rows_that_do_not_fit_get_another_type_and_it_is_said(self):
        text = self.quantize(STORIES, "Q4_K_M")  # rows of 288 and 768: 256 divides one of them
        self.assertRegex(text, r"\d+ tensors have rows that are no whole blocks")
        self.assertIn("q4_1 instead of q4_K", text)
        types = {kind for kind, _ in tensors(self.out).values()}
        self.assertEqual(types, {"f32", "q4_1", "q8_0", "q4_K", "q6_K"})
        report = run_json("quantize", STORIES, self.out, "Q4_K_M", "--force", "--json")
        self.assertGreater(report["n_fallback"], 0)
        self.assertEqual(report["bytes_out"], os.path.getsize(self.out))

    def test_threads_change_nothing(self):
        digests = set()
        for threads in ("1", "2", "7", "64"):
            self.quantize(STORIES, "Q5_K_S", "--force", "--threads", threads)
            with open(self.out, "rb") as file:
                digests.add(hashlib.sha256(file.read()).hexdigest())
        self.assertEqual(len(digests), 1)

    def test_every_type_gives_a_model_that_opens(self):
        page = run("quantize", "--help").stdout.decode()
        kinds = sorted(set(re.findall(r"\b(?:I?Q\d\w*|TQ\d\w*|B?F16|F32|MXFP4|NVFP4)\b", page)))
        self.assertGreater(len(kinds), 25)
        for kind in kinds:
            self.quantize(STORIES_TINY, kind, "--force")
            self.assertEqual(run("info", self.out).returncode, 0, kind)

    def test_the_result_still_tells_stories(self):
        wanted = perplexity(STORIES)
        # Measured: 1.001, 1.027, 1.074 and 1.163 times the perplexity; twice the loss means that something is broken.
        for kind, limit in {"Q8_0": 1.02, "Q5_K_M": 1.06, "Q4_K_M": 1.15, "Q4_0": 1.33}.items():
            self.quantize(STORIES, kind, "--force")
            self.assertLess(perplexity(self.out) / wanted, limit, kind)
        done = run("run", self.out, "Once upon a time", "-n", "24", "--temp", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout), 60)

    def test_quantised_input_needs_leave(self):
        self.quantize(STORIES, "Q8_0")
        second = os.path.join(self.folder, "second.gguf")
        self.assert_refused([self.out, second, "Q4_0"], "quantised already")
        self.assertFalse(os.path.exists(second))
        self.quantize(self.out, "Q4_0", "--allow-requantize", out=second)
        self.quantize(self.out, "Q8_0", "--force", "--pure", out=second)  # nothing to convert: no leave needed
        self.assertEqual(tensors(self.out), tensors(second))

    def test_refusals_say_what_to_do(self):
        self.assert_refused([STORIES, self.out], "are needed", code=2)
        self.assert_refused([STORIES, self.out, "Q9_9"], "no quantisation 'Q9_9'", "Q4_K_M")
        self.assert_refused([STORIES, self.out, "IQ2_XXS"], "importance matrix")
        self.assert_refused([STORIES, os.path.join(self.folder, "no", "out.gguf"), "Q8_0"], "No such file")
        shutil.copy(STORIES_TINY, self.out)
        self.assert_refused([self.out, self.out, "Q8_0", "--force"], "the output is the input")
        self.assert_refused([STORIES, self.out, "Q8_0"], "exists already")
        with open(self.out, "rb") as file:
            kept = file.read()
        with open(STORIES_TINY, "rb") as file:
            self.assertEqual(kept, file.read())

    def test_cut_files_are_refused_wherever_they_end(self):
        with open(STORIES_TINY, "rb") as file:
            whole = file.read()
        cut = os.path.join(self.folder, "cut.gguf")
        for at in random.Random(1).sample(range(len(whole) - 32), 40):
            with open(cut, "wb") as file:
                file.write(whole[:at])
            self.assert_refused([cut, self.out, "Q8_0"], "cannot quantise")
            self.assertFalse(os.path.exists(self.out))

    def test_weights_that_are_no_numbers_are_refused(self):
        described = run_json("info", STORIES, "--tensors", "--json")["file"]["tensors"]
        place = next(t for t in described if t["name"] == "blk.1.ffn_up.weight")["offset"]
        broken = os.path.join(self.folder, "broken.gguf")
        shutil.copy(STORIES, broken)
        with open(broken, "r+b") as file:
            file.seek(place + 1000)
            file.write(struct.pack("<H", 0x7E00))
        self.assert_refused([broken, self.out, "Q8_0"], "blk.1.ffn_up.weight", "NaN")
        self.assertFalse(os.path.exists(self.out))

    def test_ctrl_c_leaves_nothing(self):
        process = subprocess.Popen(command_line("quantize", MINIMIND, self.out, "IQ3_S", "--threads", "1"),
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while not os.path.exists(self.out + ".partial") and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertIn("nothing was written", err.decode())
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()
