"""Makes statistics.json: what SciPy says of the same figures as lab/statistics/src.

Run it with SciPy 1.17 and NumPy: python3 make.py > statistics.json. The figures are drawn from a fixed seed. The resampled
medians of the bootstrap are part of the file, so that both sides read their interval off the same distribution.
"""

import json

import numpy
import scipy
from scipy import stats

generator = numpy.random.default_rng(20261122)


def samples():
    """Figures of several sizes and shapes, among them ties, zeros and outliers."""
    for size in (6, 9, 16, 25, 40):
        noise = generator.normal(0.02, 0.03, size)
        yield f"normal, {size}", noise
        yield f"heavy tails, {size}", generator.standard_t(2, size) * 0.02
        yield f"skewed, {size}", generator.exponential(0.05, size) - 0.03
        yield f"rounded, {size}", numpy.round(noise, 2)
    # Too many to be counted, where the normal distribution is used.
    yield "normal, 300", generator.normal(0.002, 0.03, 300)
    yield "rounded, 300", numpy.round(generator.normal(0.002, 0.03, 300), 2)
    yield "trend, 30", numpy.linspace(-0.05, 0.08, 30) + generator.normal(0, 0.01, 30)
    yield "one sign, 12", generator.uniform(0.01, 0.02, 12)


def bootstrap(values):
    """SciPy's own interval, read off medians that go into the file."""
    drawn = generator.choice(values, (199, len(values)))
    medians = numpy.sort(numpy.median(drawn, axis=1))
    known = stats.bootstrap((values,), numpy.median, method="percentile", n_resamples=1, rng=generator)
    known.bootstrap_distribution = medians
    interval = stats.bootstrap(
        (values,), numpy.median, method="BCa", n_resamples=0, bootstrap_result=known, confidence_level=0.95, rng=generator
    ).confidence_interval
    ends = [float(interval.low), float(interval.high)]
    # SciPy has no answer where leaving out any one value leaves the same median.
    return {"medians": medians.tolist(), "interval": None if numpy.isnan(ends).any() else ends}


def signed_rank(values):
    """The exact share of all signs, enumerated for few blocks, by a table for more without ties; or the normal one."""
    values = values[values != 0]
    sizes = numpy.abs(values)
    if len(values) <= 16:
        ranks = stats.rankdata(sizes)

        def statistic(signed):
            return float(numpy.sum(numpy.sign(signed) * ranks))

        test = stats.permutation_test(
            (values,), statistic, permutation_type="samples", n_resamples=numpy.inf, vectorized=False
        )
        return float(test.pvalue)
    if len(values) > 200:
        return float(stats.wilcoxon(values, method="asymptotic", correction=False).pvalue)
    if len(numpy.unique(sizes)) == len(sizes):
        return float(stats.wilcoxon(values, method="exact").pvalue)
    return None


def describe(name, values):
    return {
        "name": name,
        "values": values.tolist(),
        "median": float(numpy.median(values)),
        "bootstrap": bootstrap(values),
        "signed_rank_p": signed_rank(values),
    }


def main():
    cases = [json.dumps(describe(name, numpy.round(values, 6))) for name, values in samples()]
    versions = f'"scipy": "{scipy.__version__}", "numpy": "{numpy.__version__}"'
    print("{" + versions + ', "cases": [', ",\n".join(cases), "]}", sep="\n")


main()
