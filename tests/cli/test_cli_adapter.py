"""adapter: files in and out, merging with what it loses, folders, and refusals that leave nothing behind."""

import json
import os
import random
import shutil
import struct
import tempfile
import unittest

from harness import MINIMIND, STORIES_TINY, main, run, run_json

ALIGN = 32


def matrices(model, part):
    tensors = run_json("info", model, "--tensors", "--json")["file"]["tensors"]
    return [(t["name"], t["shape"][0], t["shape"][1]) for t in tensors if ".%s." % part in t["name"]]


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def write_lora(path, model, seed=1, rank=2, part="attn_q", architecture="llama"):
    """A GGUF LoRA file as llama.cpp's converter makes them."""
    draw = random.Random(seed)
    tensors = []
    for name, n_in, n_out in matrices(model, part):
        tensors += [(name + ".lora_a", (n_in, rank)), (name + ".lora_b", (rank, n_out))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 4)
    for key, value in (("general.type", "adapter"), ("general.architecture", architecture), ("adapter.type", "lora")):
        head += text(key) + struct.pack("<I", 8) + text(value)
    head += text("adapter.lora.alpha") + struct.pack("<If", 6, rank)
    offset, data = 0, b""
    for name, shape in tensors:
        head += text(name) + struct.pack("<IQQIQ", 2, *shape, 0, offset)
        piece = struct.pack("<%df" % (shape[0] * shape[1]), *(draw.gauss(0, 0.1) for _ in range(shape[0] * shape[1])))
        data += piece + bytes(-len(piece) % ALIGN)
        offset = len(data)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGN) + data)
    return path


class Adapter(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ruvllm-adapter-")
        self.one = write_lora(self.path("one.gguf"), STORIES_TINY, seed=1)
        self.two = write_lora(self.path("two.gguf"), STORIES_TINY, seed=2, rank=3)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def adapter(self, action, *args):
        return run_json("adapter", action, STORIES_TINY, *args, "--json")

    def assert_refused(self, args, *texts, code=1):
        before = sorted(os.listdir(self.folder))
        done = run("adapter", *args)
        self.assertEqual(done.returncode, code, done.stderr)
        for part in texts:
            self.assertIn(part, done.stderr.decode())
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_info_describes_what_is_in_a_file(self):
        info = self.adapter("info", self.one)
        self.assertEqual(info["rank"], 2)
        self.assertEqual(info["pairs"], len(matrices(STORIES_TINY, "attn_q")))
        self.assertTrue(info["changes_layers"])
        self.assertFalse(info["changes_head"])
        self.assertGreater(info["norm"], 0)
        self.assertEqual(info["file_bytes"], os.path.getsize(self.one))
        shown = run("adapter", "info", STORIES_TINY, self.one).stdout.decode()
        self.assertIn("rank      2", shown)
        self.assertIn(info["hash"], shown)

    def test_import_and_export_keep_the_content(self):
        content = self.adapter("info", self.one)["hash"]
        self.assertEqual(self.adapter("import", self.one, "-o", self.path("own.gguf"))["hash"], content)
        self.assertEqual(self.adapter("export", self.path("own.gguf"), "-o", self.path("back.gguf"))["hash"], content)
        peft = self.adapter("export", self.one, "--format", "peft", "-o", self.path("peft"))
        self.assertEqual(peft["rank"], 2)
        with open(os.path.join(self.folder, "peft", "adapter_config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["r"], 2)
        again = self.adapter("import", self.path("peft"), "-o", self.path("again.gguf"))
        self.assertAlmostEqual(again["norm"], self.adapter("info", self.one)["norm"], places=4)

    def test_merge_adds_changes_and_says_what_the_rank_loses(self):
        exact = self.adapter("merge", self.one, self.two, "-o", self.path("both.gguf"))
        self.assertLess(exact["error"], 1e-3)
        self.assertLessEqual(exact["rank"], 5)
        small = self.adapter("merge", self.one, self.two, "-o", self.path("small.gguf"), "--rank", "1")
        self.assertEqual(small["rank"], 1)
        self.assertGreater(small["error"], 0.01)
        alone = self.adapter("merge", self.one + "=1", self.two + "=0", "--method", "sum", "-o", self.path("a.gguf"))
        self.assertAlmostEqual(alone["norm"], self.adapter("info", self.one)["norm"], places=2)

    def test_every_method_merges(self):
        for method in ("sum", "average", "slerp", "ties", "dare"):
            merged = self.adapter("merge", self.one, self.two, "--method", method, "--rank", "4", "-o",
                                  self.path(method + ".gguf"))
            self.assertGreater(merged["norm"], 0, method)
        first = self.adapter("info", self.path("dare.gguf"))["hash"]
        again = self.adapter("merge", self.one, self.two, "--method", "dare", "--rank", "4", "-o",
                             self.path("dare.gguf"), "--force")
        self.assertEqual(again["hash"], first)

    def test_list_shows_a_folder_and_what_does_not_fit(self):
        with open(self.path("broken.gguf"), "wb") as file:
            file.write(b"GGUF")
        rows = {os.path.basename(row["path"]): row for row in self.adapter("list", self.folder)["adapters"]}
        self.assertEqual(sorted(rows), ["broken.gguf", "one.gguf", "two.gguf"])
        self.assertEqual(rows["two.gguf"]["rank"], 3)
        self.assertIn("error", rows["broken.gguf"])
        self.assertIn("rank 3", run("adapter", "list", STORIES_TINY, self.folder).stdout.decode())

    def test_refusals_leave_nothing_behind(self):
        self.assert_refused(["import", MINIMIND, self.one, "-o", self.path("x.gguf")], "one.gguf")
        self.assert_refused(["import", STORIES_TINY, self.path("none.gguf"), "-o", self.path("x.gguf")], "none.gguf")
        self.assert_refused(["import", STORIES_TINY, STORIES_TINY, "-o", self.path("x.gguf")], "stories260K.gguf")
        self.assert_refused(["import", STORIES_TINY, self.one, "-o", self.two], "exists", "--force")
        self.assert_refused(["export", STORIES_TINY, self.one, "--format", "peft", "-o", self.folder], "exists")
        self.assert_refused(["merge", STORIES_TINY, self.one, self.path("none.gguf"), "-o", self.path("x.gguf")], "none")

    def test_usage_is_explained(self):
        self.assert_refused([], "import, export, merge, info or list", code=2)
        self.assert_refused(["imprt"], "did you mean 'import'?", code=2)
        self.assert_refused(["info"], "no model given", code=2)
        self.assert_refused(["info", STORIES_TINY], "no adapter given", code=2)
        self.assert_refused(["list", STORIES_TINY], "no folder given", code=2)
        self.assert_refused(["import", STORIES_TINY, self.one], "-o PATH", code=2)
        self.assert_refused(["merge", STORIES_TINY, self.one, "-o", self.path("x")], "at least two", code=2)
        self.assert_refused(["info", STORIES_TINY, self.one, self.two], "two.gguf", code=2)


if __name__ == "__main__":
    main()
