"""
Maintainer's script: how data/ was made. Nobody needs to run it; the result is committed.

    apt-get install bible-kjv bible-kjv-text      # Debian, version 4.38
    python build_data.py                          # about half a minute, rewrites data/

1. The King James text, verse labels stripped, one verse a line.
2. Blocks of 50 verses; every 50th block is validation, the rest is training.
3. A byte-level BPE, learnt on the training text only. The tables of the smaller vocabularies are
   prefixes of the largest, so they differ in nothing but size.
4. Each split is stored as a list of its different words, a stream of word numbers, and for each
   vocabulary the tokens of each word: small on disk, and a few array look-ups make the tokens.

What it does not do: compress to the same bytes with every zlib. The manifest holds the digests of
the files as committed, and of the text and the tables themselves, which every zlib gives back.
"""

import hashlib
import itertools
import json
import re
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"
VOCABS = (256, 512, 1024, 2048, 4096)
BLOCK = 50       # verses
VAL_EVERY = 50   # every so many blocks one is validation
VAL_FIRST = 25   # the first of them
SOURCE = "Debian packages bible-kjv and bible-kjv-text 4.38: bible -f gen1:1-rev22:21"

# A word takes the space before it along; line ends stay alone, so no token crosses a verse.
WORD = re.compile(rb" ?[A-Za-z]+| ?[^A-Za-z\s]+|\s")
LABEL = re.compile(rb"^[0-9]?[A-Za-z]+[0-9]+:[0-9]+ ")

# -----------------------------------------------------------------------------
# text


def read_verses():
    """31,102 verses as bytes, labels like 'Ge1:1 ' stripped."""
    made = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, check=True)
    lines = made.stdout.splitlines()
    if not all(LABEL.match(line) for line in lines):
        sys.exit("a line has no verse label: another version of the bible package?")
    return [LABEL.sub(b"", line) for line in lines]


def split_verses(verses):
    """(train, val): the text of both splits, each verse ended by a line feed."""
    parts = {"train": [], "val": []}
    for number, start in enumerate(range(0, len(verses), BLOCK)):
        split = "val" if number % VAL_EVERY == VAL_FIRST else "train"
        parts[split] += [verse + b"\n" for verse in verses[start : start + BLOCK]]
    return b"".join(parts["train"]), b"".join(parts["val"])


# -----------------------------------------------------------------------------
# byte pair encoding


def merge_word(word, pair, new):
    """The token tuple *word* with each *pair* in it replaced by the token *new*, left to right."""
    out, i = [], 0
    while i < len(word):
        if word[i : i + 2] == pair:
            out.append(new)
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train_bpe(text, vocab):
    """List of pairs; the n-th becomes token 256 + n. Ties go to the smaller pair of tokens."""
    words = [(tuple(word), count) for word, count in sorted(Counter(WORD.findall(text)).items())]
    counts, where = Counter(), defaultdict(set)  # of each pair: how often, in which words
    for i, (word, count) in enumerate(words):
        for pair in itertools.pairwise(word):
            counts[pair] += count
            where[pair].add(i)
    merges = []
    while len(merges) < vocab - 256:
        best = max(counts, key=lambda pair: (counts[pair], -pair[0], -pair[1]))
        for i in where.pop(best):
            word, count = words[i]
            merged = merge_word(word, best, 256 + len(merges))
            for pair in itertools.pairwise(word):
                counts[pair] -= count
            for pair in itertools.pairwise(merged):
                counts[pair] += count
                where[pair].add(i)
            words[i] = (merged, count)
        del counts[best]
        merges.append(best)
    return merges


def token_bytes(merges):
    """The bytes that each token stands for."""
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens


def encode_word(word, ranks):
    """Tokens of one word: of all pairs in it, the one learnt first is merged first."""
    word = tuple(word)
    while len(word) > 1:
        pair = min(itertools.pairwise(word), key=lambda pair: ranks.get(pair, 1 << 30))
        if pair not in ranks:
            break
        word = merge_word(word, pair, 256 + ranks[pair])
    return word


# -----------------------------------------------------------------------------
# files


def pack_bytes(strings):
    """Short byte strings as one: their lengths as uint8, then all of them."""
    return bytes(len(string) for string in strings) + b"".join(strings)


def pack_tokens(words, merges):
    """Tokens of each word: their numbers as uint8, then all tokens as little-endian uint16."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    encoded = [encode_word(word, ranks) for word in words]
    flat = np.array([token for tokens in encoded for token in tokens], dtype="<u2")
    return bytes(len(tokens) for tokens in encoded) + flat.tobytes(), encoded


def main():
    train, val = split_verses(read_verses())
    merges = train_bpe(train, max(VOCABS))
    tokens = token_bytes(merges)
    files = {"tokens.zz": pack_bytes(tokens)}
    manifest = {"source": SOURCE, "splits": {}, "tables": {}, "files": {}}
    for vocab in VOCABS:
        table = hashlib.sha256(pack_bytes(tokens[:vocab])).hexdigest()
        manifest["tables"][vocab] = {"sha256": table}
    for split, text in (("train", train), ("val", val)):
        found = WORD.findall(text)
        counts = Counter(found)
        words = sorted(counts, key=lambda word: (-counts[word], word))
        number = {word: i for i, word in enumerate(words)}
        files[f"{split}.words.zz"] = pack_bytes(words)
        files[f"{split}.stream.zz"] = np.array([number[w] for w in found], dtype="<u2").tobytes()
        for vocab in VOCABS:
            packed, encoded = pack_tokens(words, merges[: vocab - 256])
            files[f"{split}.{vocab}.zz"] = packed
            total = sum(len(encoded[i]) * counts[word] for i, word in enumerate(words))
            manifest["tables"][vocab][f"{split}_tokens"] = total
        manifest["splits"][split] = {
            "bytes": len(text),
            "verses": text.count(b"\n"),
            "sha256": hashlib.sha256(text).hexdigest(),
        }
    for name, content in sorted(files.items()):
        packed = zlib.compress(content, 9)
        (DATA / name).write_bytes(packed)
        manifest["files"][name] = hashlib.sha256(packed).hexdigest()
    (DATA / "MANIFEST.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
