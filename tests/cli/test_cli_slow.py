"""The commands on whole texts: what takes too long for every build."""

import os
import unittest

from harness import DATA, STORIES_TINY, main, run_json


class PerplexityOfAWholeText(unittest.TestCase):
    def test_the_figure_is_that_of_llama_perplexity(self):
        text = os.path.join(DATA, "text", "tinystories_val_100k.txt")
        found = run_json("perplexity", STORIES_TINY, "-f", text, "--ctx", "256", "--json", timeout=280)
        # data/README.md gives 3.939; the bound is 0.1 %.
        self.assertAlmostEqual(found["perplexity"], 3.939, delta=0.0039)
        self.assertEqual(found["chunks"], found["tokens_in_text"] // 256)


if __name__ == "__main__":
    main()
