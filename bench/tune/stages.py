"""Ten policies with a scenario each, whose best values an exhaustive search can find.

The first five have one to three values that may change, the others four or five.
"""

from dataclasses import dataclass


@dataclass
class Stage:
    """A policy that is to be tuned."""

    name: str
    policy: str
    scenario: str
    goals: list
    keep: list
    free: list
    levels: int
    """How many values of each key the exhaustive search tries, of the whole range."""


def poisson(name, port, size, rate):
    return (f'[[source]]\nname = "{name}"\nkind = "poisson"\ndport = {port}\n'
            f'size = "{size} B"\nrate = "{rate} kbit/s"\n')


def cbr(name, port, size, rate):
    return (f'[[source]]\nname = "{name}"\nkind = "cbr"\ndport = {port}\nsize = "{size} B"\n'
            f'rate = "{rate} kbit/s"\njitter = "60 %"\n')


def on_off(name, port, size, rate, on, off):
    return (f'[[source]]\nname = "{name}"\nkind = "on-off"\ndport = {port}\nsize = "{size} B"\n'
            f'rate = "{rate} kbit/s"\non = "{on} ms"\noff = "{off} ms"\ndistribution = "constant"\n')


def scenario(*sources):
    return 'duration = "10 s"\npolicy = "none.toml"\n' + "".join(sources)


def policy(scheduler, **classes):
    """Each class has the keys that are given; the last one is the default."""
    text = f'[link]\nrate = "2 Mbit/s"\nscheduler = "{scheduler}"\n'
    for place, (name, keys) in enumerate(classes.items()):
        last = place == len(classes) - 1
        rule = "default = true" if last else f"match = [{{ dport = {5001 + place} }}]"
        text += f"[class.{name}]\n{rule}\n" + "".join(f"{key}\n" for key in keys)
    return text


CALL = cbr("call", 5001, 200, 160)
FILM = on_off("film", 5002, 1200, 1500, 200, 200)
GAME = cbr("game", 5003, 300, 300)
FLOOD = poisson("flood", 5009, 1200, 4000)
EVENING = scenario(CALL, FILM, GAME, FLOOD)
WEIGHTS = ["weight = 8"]
QUANTUM = ['quantum = "1600 B"']


def rate(text, *more):
    return [f'rate = "{text}"', *more]


def limit(count):
    return f'queue = {{ limit = "{count} packets" }}'


SHARED = {"call": rate("300 kbit/s"), "film": rate("800 kbit/s"), "game": rate("400 kbit/s")}
FILM_LIMITED = rate("800 kbit/s", limit(40))
DELAYS = ["call.delay.p90 < 15 ms", "game.delay.p90 < 20 ms"]

STAGES = [
    Stage("fifo: a limit", policy("fifo", all=[limit(200)]),
          scenario(on_off("film", 5002, 300, 5500, 100, 150), CALL),
          ["min all.loss"], ["all.delay.p90 < 80 ms"], ["queue.limit"], 400),
    Stage("wf2q+: two weights", policy("wf2q+", call=WEIGHTS, film=WEIGHTS, game=WEIGHTS, bulk=WEIGHTS),
          EVENING, ["min film.delay.p90"], DELAYS, ["class.film.weight", "class.game.weight"], 40),
    Stage("drr: two quanta", policy("drr", call=QUANTUM, film=QUANTUM, game=QUANTUM, bulk=QUANTUM),
          EVENING, ["min film.delay.p90"], DELAYS, ["class.film.quantum", "class.game.quantum"], 40),
    Stage("htb: two rates", policy("htb", **SHARED, bulk=rate("500 kbit/s")), EVENING,
          ["min film.delay.p90"], ["film.loss < 2 %", "bulk.rate > 350 kbit/s"],
          ["class.film.rate", "class.bulk.rate"], 40),
    Stage("htb: a rate and a limit",
          policy("htb", **{**SHARED, "film": FILM_LIMITED}, bulk=rate("400 kbit/s")),
          EVENING, ["min film.delay.p90"], ["film.loss < 2 %", "bulk.rate > 350 kbit/s"],
          ["class.film.rate", "class.film.queue.limit"], 40),
    Stage("wfq: four weights", policy("wfq", call=WEIGHTS, film=WEIGHTS, game=WEIGHTS, bulk=WEIGHTS),
          EVENING, ["min film.delay.p90"], DELAYS, ["class.*.weight"], 7),
    Stage("drr: four quanta", policy("drr", call=QUANTUM, film=QUANTUM, game=QUANTUM, bulk=QUANTUM),
          EVENING, ["min film.delay.p90"], DELAYS, ["class.*.quantum"], 7),
    Stage("htb: three rates and a limit",
          policy("htb", **{**SHARED, "film": FILM_LIMITED}, bulk=rate("200 kbit/s")),
          EVENING, ["min film.delay.p90"],
          ["call.delay.p90 < 20 ms", "game.delay.p90 < 30 ms", "film.loss < 2 %"],
          ["class.call.rate", "class.film.rate", "class.game.rate", "class.film.queue.limit"], 7),
    Stage("hfsc: four rates", policy("hfsc", **SHARED, bulk=rate("400 kbit/s")), EVENING,
          ["min film.delay.p90"], DELAYS, ["class.*.rate"], 7),
    Stage("qfq: five weights",
          policy("qfq", call=WEIGHTS, film=WEIGHTS, game=WEIGHTS, other=WEIGHTS, bulk=WEIGHTS),
          scenario(CALL, FILM, GAME, cbr("other", 5004, 800, 300), FLOOD),
          ["min film.delay.p90"], [*DELAYS, "other.delay.p90 < 60 ms"], ["class.*.weight"], 5),
]
