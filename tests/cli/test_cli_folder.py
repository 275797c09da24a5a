"""A Hugging Face folder where a model file goes: the same words, tokens and quantised bytes as from the GGUF file."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import DATA, MINIMIND, STORIES, main, run, run_json

MAKE_FOLDER = os.environ.get("MAKE_HF_FOLDER", "build/dev/tests/make_hf_folder")


def digests(path):
    described = run_json("info", path, "--tensors", "--json")["file"]["tensors"]
    with open(path, "rb") as file:
        data = file.read()
    return {t["name"]: (t["type"], hashlib.sha256(data[t["offset"]:t["offset"] + t["n_bytes"]]).hexdigest())
            for t in described}


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="ruvllm-folder-")
        cls.stories = os.path.join(cls.top, "stories")
        cls.minimind = os.path.join(cls.top, "minimind")
        subprocess.run([MAKE_FOLDER, STORIES, cls.stories], check=True)
        subprocess.run([MAKE_FOLDER, MINIMIND, cls.minimind, "2"], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.top)

    def test_it_writes_what_the_file_writes(self):
        for folder, file, options in ((self.stories, STORIES, ["Once upon a time"]),
                                      (self.minimind + "/", MINIMIND, ["--chat", "Hello"])):
            said = [run("run", path, *options, "--temp", "0", "--max-tokens", "24") for path in (folder, file)]
            self.assertEqual(said[0].returncode, 0, said[0].stderr.decode())
            self.assertEqual(said[0].stdout, said[1].stdout)
            self.assertGreater(len(said[0].stdout), 20)

    def test_it_is_described(self):
        info = run_json("info", self.minimind, "--json")["model"]
        self.assertEqual(info["architecture"], "llama")
        self.assertEqual(info["name"], "minimind")
        self.assertEqual(info["n_params"], run_json("info", MINIMIND, "--json")["model"]["n_params"])

    def test_it_tokenizes_alike(self):
        text = "The Nürnberg trains: 12,345 tons 中文\n\n  end"
        for folder, file in ((self.stories, STORIES), (self.minimind, MINIMIND)):
            ids = [run("tokenize", path, text, "--ids") for path in (folder, file)]
            self.assertEqual(ids[0].returncode, 0, ids[0].stderr.decode())
            self.assertEqual(ids[0].stdout, ids[1].stdout)

    def test_it_is_quantised_to_the_same_bytes(self):
        out = [os.path.join(self.top, name) for name in ("folder.gguf", "file.gguf")]
        for path, to in zip((self.minimind, MINIMIND), out):
            done = run("quantize", path, to, "Q8_0")
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(digests(out[0]), digests(out[1]))
        said = [run("run", path, "--chat", "Hello", "--temp", "0", "--max-tokens", "16").stdout for path in out]
        self.assertEqual(said[0], said[1])

    def test_other_folders_are_refused(self):
        for path, text in ((DATA, "is a folder without config.json"), (self.top, "is a folder without config.json")):
            done = run("run", path, "Hello")
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr.decode())
        broken = os.path.join(self.top, "broken")
        os.mkdir(broken)
        with open(os.path.join(broken, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"architectures": ["MambaForCausalLM"]}, file)
        done = run("run", broken, "Hello")
        self.assertEqual(done.returncode, 1)
        self.assertIn("architecture 'MambaForCausalLM' is not one this engine reads from a folder", done.stderr.decode())

    def test_libllama_is_not_handed_a_folder(self):
        done = run("run", self.stories, "Hello", "--backend", "llama")
        self.assertEqual(done.returncode, 1)
        self.assertIn("GGUF files only", done.stderr.decode())


if __name__ == "__main__":
    main()
