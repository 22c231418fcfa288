/*
 * tools/bench/report.h -- what was measured, in words: tables for people, JSON for programs.
 */
#ifndef CAIRN_TOOLS_BENCH_REPORT_H
#define CAIRN_TOOLS_BENCH_REPORT_H

#include <stdio.h>

#include "tools/bench/environment.h"
#include "tools/bench/series.h"

/* One line, or several, about the machine; about an engine. */
void cairn_bench_print_environment(FILE *to, const struct bench_environment *environment);
void cairn_bench_print_engine(FILE *to, const struct bench_engine *engine);
/* What cairn was asked to do otherwise than by default: ", …", or nothing. */
void cairn_bench_print_choices(FILE *to, const struct bench_options *options);

/* All about one engine. */
void cairn_bench_print_report(
    FILE *to, const struct bench_series *series, const struct bench_environment *environment);

/* Engines side by side, in Markdown, with ratios to the first. */
void cairn_bench_print_comparison(
    FILE *to, const struct bench_series *series, const struct bench_environment *environment);

/* All figures of all passes. */
void cairn_bench_print_json(
    FILE *to, const struct bench_series *series, const struct bench_environment *environment);

#endif
