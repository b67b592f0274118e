"""Tuning: what is wanted, what may change, and what a search finds."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import weir
from weir import _weir
from weir._knobs import knobs_of, written
from weir._search import Search
from weir._wanted import Condition

from common import needs

TUNED = """[link]
rate = "2 Mbit/s"
scheduler = "wf2q+"
[class.call]
weight = 1                  # of how many
match = [{ dport = 5004 }]
[class.bulk]
weight = 4
default = true
queue = { limit = "50 packets" }
"""
EVENING = """duration = "2 s"
policy = "none.toml"
[[source]]
name = "call"
kind = "cbr"
dport = 5004
size = "1000 B"
rate = "700 kbit/s"
[[source]]
name = "flood"
kind = "cbr"
dport = 5005
size = "1000 B"
rate = "3 Mbit/s"
"""


class Tune(unittest.TestCase):
    def test_a_condition_is_read(self):
        one = Condition.of("call.delay.p99 <= 10 ms")
        self.assertEqual((one.metric, one.below, one.limit), ("call.delay.p99", True, 0.01))
        self.assertAlmostEqual(one.margin(0.008), 0.2)
        self.assertEqual(one.worst([0.001, 0.02]), 0.02)
        self.assertIsNone(one.worst([0.001, None]), "a run without packets shows nothing")
        self.assertEqual(Condition.of("call.rate > 2 Mbit/s").margin(3e6), 0.5)
        self.assertEqual(Condition.of("link.behind.p95 < 20 ms").limit, 0.02)
        self.assertEqual(Condition.of("link.behind.used > 80 %").limit, 0.8)
        for wrong in ("link.behind.p95 < 20 %", "call.delay.p99 10 ms", "call.rate > 2 miles", "call.loss < 0 %",
                      "call.delay.p99 < 60", "call.delay.p99 < 1.2.3 ms", "call.delay.p99 < 6 Mbit/s", "call.rate > 3 ms"):
            with self.assertRaisesRegex(ValueError, f"`{wrong}`"):
                Condition.of(wrong)

    def test_values_are_written_as_the_policy_writes_them(self):
        knobs = knobs_of(_weir.parse_toml(TUNED), ["class.*"])
        self.assertEqual([knob.key for knob in knobs],
                         ["class.call.weight", "class.bulk.weight", "class.bulk.queue.limit"])
        weight, _, limit = knobs
        self.assertEqual((weight.write(3.4), limit.write(77.3), limit.write(50.0)),
                         (3, "77 packets", "50 packets"))
        self.assertEqual((limit.low, limit.high), (6.25, 400.0))
        close = _weir.parse_toml(TUNED.replace("50 packets", "50packets"))
        (limit,) = knobs_of(close, ["queue.limit"])
        self.assertEqual((limit.write(77.3), limit.write(50)), ("77packets", "50packets"))
        self.assertEqual([knob.key for knob in knobs_of(_weir.parse_toml(TUNED), ["queue.limit"])],
                         ["class.bulk.queue.limit"])

    @needs("tomlkit")
    def test_each_changed_value_has_a_comment(self):
        def check(policy, change, *lines):
            knobs = knobs_of(_weir.parse_toml(policy), ["class.*"])
            values = {knob.key: knob.write(knob.number * 2 if knob.key in change else knob.number)
                      for knob in knobs}
            text = written(policy, knobs, values, "head")
            self.assertEqual([line for line in text.splitlines() if "tuned" in line], list(lines))
            self.assertEqual(text.splitlines()[0], "# head")
            _weir.parse_toml(text)

        check(TUNED, ["class.call.weight"], "weight = 2                  # tuned, was 1; of how many")
        check(TUNED, ["class.bulk.queue.limit"],
              'queue = { limit = "100 packets" } # tuned, limit was 50 packets')
        inline = 'class = { a = { weight = 3, queue = { limit = "5 packets" } } } # mine\n'
        head = '[link]\nrate = "2 Mbit/s"\nscheduler = "wf2q+"\n'
        check(inline + head, ["class.a.weight", "class.a.queue.limit"],
              'class = { a = { weight = 6, queue = { limit = "10 packets" } } } '
              "# tuned, a.queue.limit was 5 packets; tuned, a.weight was 3; mine")

    def test_what_is_asked_for_wrongly_is_told(self):
        with self.assertRaisesRegex(ValueError, "no goal"):
            weir.tune(TUNED, [], [EVENING])
        with self.assertRaisesRegex(ValueError, "`trials` is 0; write 1"):
            weir.tune(TUNED, ["max bulk.rate"], [EVENING], trials=0)
        with self.assertRaisesRegex(ValueError, "matches `class.none.\\*`"):
            weir.tune(TUNED, ["max bulk.rate"], [EVENING], free=["class.none.*"])

    @needs("optuna", "tomlkit")
    def test_a_goal_is_met_by_a_small_change(self):
        found = weir.tune(TUNED, ["call.delay.p99 < 50 ms"], [EVENING], ["bulk.rate > 1 Mbit/s"],
                          free=["class.*.weight"], trials=30, seeds=1, fresh=2)
        self.assertTrue(found.met, found.words)
        # 700 of 2000 kbit/s are 7 of 20 parts: a weight of 3 beside 5, or 1 beside 1 and less.
        values = found.pick.values
        part = values["class.call.weight"] / sum(values.values())
        self.assertTrue(0.35 <= part <= 0.5, values)
        self.assertEqual(found.settings(), values, "those that stay, too: a link may have others")
        self.assertIn("# tuned, was", found.policy)
        codes = [[row["code"] for row in weir.check(text)] for text in (found.policy, TUNED)]
        self.assertEqual(codes[0], codes[1])
        self.assertIn("bulk: ", found.words)
        self.assertTrue(found.table().to_dict()["candidate"])

    @needs("optuna", "tomlkit")
    def test_files_and_objects_are_tuned(self):
        promise = '[[promise]]\nthat = "bulk.rate > 1 Mbit/s"\nunder = "evening.toml"\n'
        with tempfile.TemporaryDirectory() as name:
            policy, scenario = Path(name) / "policy.toml", Path(name) / "evening.toml"
            policy.write_text(TUNED + promise)
            scenario.write_text(EVENING)
            given = [
                (policy, scenario, {}),
                (weir.Policy.from_toml(TUNED + promise), weir.Scenario.from_toml(EVENING),
                 {"policy_dir": name, "base_dir": name}),
            ]
            found = [weir.tune(one, ["call.delay.p99 < 9 s"], [over], free=["class.*.weight"],
                               trials=4, seeds=1, fresh=2, **folders) for one, over, folders in given]
        self.assertEqual(found[0].words, found[1].words)
        self.assertEqual(found[0].runs, 2, "the promise's scenario is the one that is tuned over")

    @needs("optuna", "tomlkit")
    def test_each_trace_of_a_folder_is_tuned_over(self):
        behind = '[behind]\nrate = "3 Mbit/s"\nbuffer = "100 ms"\n'
        evening = EVENING.replace("[[source]]", behind + "[[source]]", 1)
        promise = '[[promise]]\nthat = "link.behind.p95 < 20 ms"\nunder = "evening.toml"\n'
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "traces")
            folder.mkdir()
            (folder / "fast.csv").write_text("0,9000\n100,8000\n")
            (folder / "slow.csv").write_text("0,1500\n100,1400\n")
            (folder / "README.md").write_text("notes")
            Path(name, "evening.toml").write_text(evening)

            def tune(traces, *goals, over=evening):
                return weir.tune(TUNED + promise, ["call.delay.p99 < 50 ms", *goals], [over],
                                 free=["class.*.weight"], policy_dir=name, traces=traces,
                                 trials=12, seeds=1, fresh=2)

            kept = tune(folder / "fast.csv", "link.behind.p95 < 20 ms")
            self.assertTrue(kept.met, kept.words)
            both = tune(folder, "link.behind.p95 < 20 ms")
            # The policy sends 2 Mbit/s into 1.4 there, whatever the weights are.
            self.assertFalse(both.met, both.words)
            self.assertIn("scenario 1 over fast.csv, call: ", both.words)
            self.assertIn("scenario 1 over slow.csv, bulk: ", both.words)
            self.assertEqual(both.runs, 6, "both traces, and the promise's scenario as it is written")
            own = [one for one in both.to_dict()["conditions"] if one["under"]]
            self.assertTrue(own[0]["after"] < 20, own)
            with self.assertRaisesRegex(weir.Error, "scenario.toml has no bottleneck for the trace"):
                tune(folder, over=EVENING)
            Path(name, "empty").mkdir()
            with self.assertRaisesRegex(ValueError, "the folder has no file"):
                tune(Path(name, "empty"))

    @needs("optuna", "tomlkit")
    def test_a_goal_that_nothing_meets_is_told(self):
        found = weir.tune(TUNED, ["call.delay.p99 < 1 us"], [EVENING],
                          free=["class.*.weight"], trials=4, seeds=1, fresh=1)
        self.assertFalse(found.met)
        self.assertIn("BROKEN", found.words)
        self.assertIn("not kept in 1 runs", found.policy)

    @needs("optuna", "tomlkit")
    def test_an_objective_is_pursued_within_conditions(self):
        found = weir.tune(TUNED, ["max bulk.rate"], [EVENING], ["call.rate > 600 kbit/s"],
                          free=["class.*.weight"], trials=30, seeds=1, fresh=2)
        self.assertTrue(found.met, found.words)
        rate = found.proof.scores[0]
        self.assertTrue(1.25e6 < rate < 1.4e6, rate)

    @needs("optuna", "tomlkit")
    def test_what_it_found_is_told_drawn_and_the_same_again(self):
        def search():
            return weir.tune(TUNED, ["max bulk.rate"], [EVENING], ["call.delay.p99 < 60 ms"],
                             free=["class.*.weight"], trials=16, seeds=2, fresh=2)

        found = search()
        told = found.to_dict()
        self.assertEqual(told, search().to_dict())
        self.assertEqual(told["objectives"], ["max bulk.rate, Mbit/s"])
        numbers = [row["number"] for row in told["tried"]]
        self.assertEqual(len(set(numbers)), len(numbers))
        self.assertIn(told["pick"], numbers)
        rates = {row["number"]: row["objectives"][0] for row in told["front"]}
        self.assertEqual(max(rates.values()), max(
            row["objectives"][0] for row in told["tried"] if row["kept"]))
        if importlib.util.find_spec("matplotlib"):
            axes = found.plot()
            self.assertEqual(axes.get_ylabel(), "max bulk.rate, Mbit/s")
            self.assertEqual([line.get_xdata()[0] for line in axes.lines], [60], "the limit is a line")
            low, high = axes.get_xlim()
            self.assertTrue(low < 60 < high < 600, "a candidate far away moves no axis")

    @needs("optuna", "tomlkit")
    def test_the_policys_own_promises_stay_kept(self):
        promises = ["bulk.rate > 1.5 Mbit/s", "call.rate <= 30 % of bulk.rate"]
        rows = "".join(f'[[promise]]\nthat = "{that}"\nunder = "evening.toml"\n' for that in promises)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(OSError, "evening.toml.*policy_dir"):
                weir.tune(TUNED + rows, ["max call.rate"], [EVENING], policy_dir=folder)
            (Path(folder) / "evening.toml").write_text(EVENING)
            found = weir.tune(TUNED + rows, ["max call.rate", "call.delay.p99 < 9 s"], [EVENING],
                              free=["class.*.weight"], policy_dir=folder, trials=12, seeds=1, fresh=2)
            self.assertTrue(found.met, found.words)
            tested = weir.test(found.policy, folder, runs=3)
        self.assertEqual(tested["kept"], 2, "2 to 1 would give the call more, and break both")
        self.assertIn("(the policy's promise under evening.toml)", found.words)
        self.assertEqual(found.guards(), ["call.delay.p99 < 9 s", promises[0]])
        self.assertEqual([row["after"] for row in found.promises], ["kept"])
        head, _, _ = found.policy.partition("\n")
        self.assertEqual(head, "# Tuned for `max call.rate`, `call.delay.p99 < 9 s`, with the promises "
                         f"`{promises[0]}`, `{promises[1]}`: kept in 4 runs with fresh seeds.")
        # A bound decides the delay: its queue at its part of the line. None decides a rate.
        delay, rate = found.to_dict()["conditions"]
        self.assertTrue(2 < delay["bound"] < 9, delay)
        self.assertEqual((delay["under"], rate["under"], rate["bound"]), (None, "evening.toml", None))
        self.assertIn("for any traffic within the declared arrivals", found.words)

    @needs("optuna", "tomlkit")
    def test_the_first_objective_decides_and_the_words_say_so(self):
        words = {}
        for goals in (["max call.rate", "max bulk.rate"], ["max bulk.rate", "max call.rate"]):
            found = weir.tune(TUNED, goals, [EVENING], free=["class.*.weight"],
                              trials=12, seeds=1, fresh=1)
            self.assertIn(f"`{goals[0]}` decides the pick", found.words)
            best = max(row.scores[0] for row in found.tried)
            self.assertAlmostEqual(found.pick.scores[0], best, delta=0.01 * best)
            words[goals[0]] = found.words
        self.assertNotEqual(*words.values())

    @needs("optuna", "tomlkit")
    def test_a_promise_that_only_a_test_decides_breaks_the_pick(self):
        promise = '[[promise]]\nthat = "call.rate < 10 % of bulk.rate"\nunder = "evening.toml"\n'
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "evening.toml").write_text(EVENING)
            found = weir.tune(TUNED + promise, ["call.delay.p99 < 9 s"], [EVENING],
                              free=["class.call.weight"], policy_dir=folder, trials=4, seeds=1, fresh=2)
        self.assertTrue(found.proof.kept())
        self.assertFalse(found.met, found.words)
        self.assertIn("broken, BROKEN by `weir test`", found.words)
        self.assertIn("not kept in 2 runs", found.policy)

    def test_a_policy_that_is_refused_is_told_with_its_findings(self):
        rows = [(TUNED.replace("weight = 4", "weight = 0"), "the policy has errors"),
                (TUNED + "[", "the policy is no TOML")]
        for policy, why in rows:
            with self.assertRaisesRegex(weir.Error, why) as caught:
                weir.tune(policy, ["max bulk.rate"], [EVENING])
            self.assertTrue(caught.exception.findings, why)
        with self.assertRaisesRegex(weir.Error, "the scenario is no TOML") as caught:
            weir.tune(TUNED, ["max bulk.rate"], [EVENING + "["])
        self.assertEqual([row["code"] for row in caught.exception.findings], ["W003"])

    def test_what_is_wrong_in_a_scenario_names_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rush.toml"
            path.write_text(EVENING + "[")
            with self.assertRaisesRegex(weir.Error, "the scenario .*rush.toml is no TOML") as caught:
                weir.tune(TUNED, ["max bulk.rate"], path)
            self.assertEqual(caught.exception.findings[0]["file"], str(path))
            # What only a run finds names it, too, and the line as it is written.
            wrong = EVENING.replace('kind = "cbr"', 'kind = "nosuch"')
            scenarios = [(wrong, folder, str(path))]
            search = Search(TUNED, ["max bulk.rate"], [], scenarios, weir.LocalEngine(1))
            search.seed, search.knobs = 1, []
            with self.assertRaisesRegex(weir.Error, "--> rush.toml:5:8") as caught:
                search.run(search.scenarios[0], {}, (1, 1), {})
            self.assertNotIn("scenario.toml", str(caught.exception))

    @needs("optuna", "tomlkit")
    def test_a_policy_of_a_networks_link_is_tuned(self):
        nodes = "".join(f'[[node]]\nname = "{name}"\nrouter = true\n' for name in "abc")
        links = ('[[link]]\nname = "lan"\nends = ["a", "b"]\nrate = "100 Mbit/s"\n'
                 '[[link]]\nname = "wan"\nends = ["b", "c"]\npolicy = "./policy.toml"\n')
        sources = EVENING.replace('policy = "none.toml"\n', nodes + links)
        network = sources.replace('kind = "cbr"', 'kind = "cbr"\nfrom = "a"\nto = "c"')
        found = weir.tune(TUNED, ["call.delay.p99 < 50 ms", "max link.wan.bulk.rate"], [network],
                          ["link.wan.utilisation > 90 %"], free=["class.*.weight"], trials=12,
                          seeds=1, fresh=2)
        self.assertTrue(found.met, found.words)
        self.assertIn("scenario 1, link.wan.call: ", found.words)
        # The flood is more than the line, and that stands above everything else.
        self.assertRegex(found.words, r"^Warning: `link.wan.bulk` loses \d+.\d % of what it sent, ")
        self.assertEqual(found.guards(), ["call.delay.p99 < 50 ms"])
        refused = network.replace("./policy.toml", "one.toml").replace(
            'rate = "100 Mbit/s"', 'policy = "two.toml"')
        with self.assertRaisesRegex(weir.Error, "none has policy.toml; write"):
            weir.tune(TUNED, ["max bulk.rate"], [refused])

    def test_what_is_missing_is_told_before_a_search(self):
        begun = []

        class Engine(weir.LocalEngine):
            def run(self, runs, batches):
                begun.append(runs)
                return super().run(runs, batches)

        with mock.patch("weir._knobs.importlib.import_module", side_effect=ImportError):
            with self.assertRaisesRegex(ImportError, "tuning needs optuna: `pip install"):
                weir.tune(TUNED, ["max bulk.rate"], [EVENING], engine=Engine(1))
        self.assertEqual(begun, [])

    @unittest.skipUnless(os.environ.get("WEIR"), "the command is not built beside the module")
    def test_the_command_tunes_or_says_what_it_needs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "policy.toml").write_text(TUNED)
            behind = '[behind]\nrate = "1 Mbit/s"\n[[source]]'
            (folder / "evening.toml").write_text(EVENING.replace("[[source]]", behind, 1))
            (folder / "line.csv").write_text("0,9000\n100,8000\n")
            words = [os.environ["WEIR"], "tune", "policy.toml", "--goal", "call.delay.p99 < 50 ms",
                     "--over", "evening.toml", "--traces", "line.csv", "--free", "class.*.weight",
                     "--goal", "link.behind.p95 < 10 ms", "--trials", "12",
                     "--seeds", "1", "--fresh", "2", "--out", "tuned.toml", "--plot", "front.svg"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False,
                                  env={**os.environ, "WEIR_PYTHON": sys.executable})
            if importlib.util.find_spec("optuna") and importlib.util.find_spec("tomlkit"):
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("(picked)", done.stdout)
                self.assertIn("scenario 1 over line.csv, call: ", done.stdout)
                self.assertIn("# tuned, was", (folder / "tuned.toml").read_text())
                self.assertIn("call.delay.p99", (folder / "front.svg").read_text())
            else:
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("pip install './weir-python[tune]'", done.stderr)
                self.assertFalse((folder / "tuned.toml").exists())

    @needs("optuna", "tomlkit")
    @unittest.skipUnless(os.environ.get("WEIR"), "the command is not built beside the module")
    def test_the_command_tunes_over_a_capture_and_over_a_record(self):
        policy = TUNED.replace("2 Mbit/s", "8 Mbit/s").replace("dport = 5004", 'proto = "udp"')
        walk = Path(__file__).parents[2] / "examples"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "policy.toml").write_text(policy)
            made = [os.environ["WEIR"], "sim", str(walk / "sim/conversations.toml"), "--record", "run.rec"]
            subprocess.run(made, cwd=folder, capture_output=True, check=True)
            given = [(str(walk / "walk/evening.pcap.gz"), "bulk.delay.p99 < 200 ms"),
                     ("run.rec", "bulk.rate > 1 Mbit/s")]
            for over, goal in given:
                words = [os.environ["WEIR"], "tune", "policy.toml", "--goal", goal, "--over", over,
                         "--free", "class.*.weight", "--trials", "4", "--seeds", "1", "--fresh", "2"]
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True,
                                      check=False,
                                      env={**os.environ, "WEIR_PYTHON": sys.executable})
                self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
                self.assertIn("(picked)", done.stdout)


if __name__ == "__main__":
    unittest.main()
