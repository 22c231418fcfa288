/*
 * tests/crash_explore.c -- explores crashes until a number of states or a time is reached.
 *
 * Workloads are *units* with a number: short ones, in a stride through all there are, so that a
 * brief run samples them evenly and a long one has them all; and random ones. Jobs are processes
 * that take the next unit and report it by a pipe. With --states the units that count are the first
 * ones that have so many together, so the result does not depend on how many jobs there are.
 */
#include "tests/test.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/crash_explorer.h"

#define STRIDE       5783u /* a prime that does not divide CRASH_EXHAUSTIVE */
#define MIX          8u    /* one in so many units is random: about half of the states */
#define JOBS_MOST    256u
#define REPORTS_MOST 3u

enum kinds { SHORT = 1, RANDOM = 2, BOTH = SHORT | RANDOM };

struct request {
	uint64_t seed;
	uint64_t states; /* 0: until the time is over */
	double seconds;  /* 0: until so many states are checked */
	unsigned jobs;
	unsigned kinds;
	const char *workload; /* to do again; NULL: explore */
	uint64_t state;
	const char *export;
};

/* What a job tells of a unit; short enough for a pipe to take it whole. */
struct unit_result {
	uint64_t unit;
	bool whole; /* it was not interrupted */
	struct crash_counts counts;
};

/* Between the jobs and their parent. */
struct shared {
	_Atomic uint64_t next; /* unit */
	atomic_bool stop;
	_Atomic uint64_t current[JOBS_MOST]; /* the unit of each job */
};

struct session {
	const struct request *request;
	struct shared *shared;
	pid_t jobs[JOBS_MOST];
	int results;               /* the end of the pipe to read from */
	struct unit_result *units; /* by number */
	size_t capacity;
	size_t prefix;             /* units below it are all there … */
	struct crash_counts total; /* … and are these together */
	uint64_t shorts;
	bool died;
};

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* ---------------------------------------------------------------- units */

/* The place of a unit among the short ones, if it is one. */
static bool is_short(const struct request *request, uint64_t unit, uint64_t *place)
{
	*place = request->kinds == BOTH ? unit - unit / MIX : unit;
	return request->kinds != RANDOM && *place < CRASH_EXHAUSTIVE &&
	       (request->kinds == SHORT || unit % MIX != MIX - 1);
}

static bool is_unit(const struct request *request, uint64_t unit)
{
	return request->kinds != SHORT || unit < CRASH_EXHAUSTIVE;
}

static void make_unit(const struct request *request, uint64_t unit, struct crash_workload *workload)
{
	uint64_t place;
	if (is_short(request, unit, &place)) {
		uint64_t index = (request->seed + place * STRIDE) % CRASH_EXHAUSTIVE;
		crash_workload_short(workload, (unsigned)index, request->seed);
	} else {
		crash_workload_random(workload, unit, request->seed);
	}
}

static bool explore_unit(const struct request *request, uint64_t unit,
    const struct crash_settings *settings, struct crash_counts *counts)
{
	struct crash_workload workload;
	make_unit(request, unit, &workload);
	bool ok = crash_explore(&workload, settings, counts);
	crash_workload_release(&workload);
	return ok;
}

/* ---------------------------------------------------------------- a job */

static bool is_over(void *context)
{
	const struct shared *shared = context;
	return atomic_load(&shared->stop);
}

static void work(const struct request *request, struct shared *shared, unsigned job, int results)
{
	struct crash_settings settings = {.stop = is_over, .context = shared};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!atomic_load(&shared->stop)) {
		struct unit_result result = {.unit = atomic_fetch_add(&shared->next, 1)};
		if (!is_unit(request, result.unit))
			break;
		atomic_store(&shared->current[job], result.unit);
		explore_unit(request, result.unit, &settings, &result.counts);
		result.whole = !atomic_load(&shared->stop);
		if (write(results, &result, sizeof result) != (ssize_t)sizeof result)
			break;
	}
}

static void start_jobs(struct session *session)
{
	int ends[2];
	if (pipe(ends))
		abort();
	fflush(NULL);
	for (unsigned job = 0; job < session->request->jobs; job++) {
		session->jobs[job] = fork();
		if (session->jobs[job] < 0)
			abort();
		if (session->jobs[job] == 0) {
			close(ends[0]);
			work(session->request, session->shared, job, ends[1]);
			exit(0);
		}
	}
	close(ends[1]);
	session->results = ends[0];
}

static void wait_for_jobs(struct session *session)
{
	for (unsigned job = 0; job < session->request->jobs; job++) {
		int status = 0;
		struct crash_workload workload;
		waitpid(session->jobs[job], &status, 0);
		if (status == 0)
			continue;
		make_unit(session->request, atomic_load(&session->shared->current[job]), &workload);
		printf("a job died (status 0x%x) in workload %s; again: crash_explore --seed %llu "
		       "--workload %s\n",
		    (unsigned)status, workload.name, (unsigned long long)session->request->seed,
		    workload.name);
		crash_workload_release(&workload);
		session->died = true;
	}
}

/* ---------------------------------------------------------------- the sum */

static void add(struct crash_counts *sum, const struct crash_counts *counts)
{
	sum->checked += counts->checked;
	sum->skipped += counts->skipped;
	sum->violations += counts->violations;
	sum->calls += counts->calls;
}

static bool is_enough(const struct session *session)
{
	return session->request->states && session->total.checked >= session->request->states;
}

static void take_unit(struct session *session, const struct unit_result *unit)
{
	uint64_t place;
	session->shorts += unit->whole && is_short(session->request, unit->unit, &place);
	add(&session->total, &unit->counts);
}

static void take_result(struct session *session, const struct unit_result *result)
{
	size_t unit = (size_t)result->unit;
	if (unit >= session->capacity) {
		size_t capacity = 2 * unit + 64;
		session->units = need(realloc(session->units, capacity * sizeof *session->units));
		memset(session->units + session->capacity, 0,
		    (capacity - session->capacity) * sizeof *session->units);
		session->capacity = capacity;
	}
	session->units[unit] = *result;
	while (!is_enough(session) && session->prefix < session->capacity &&
	       session->units[session->prefix].whole)
		take_unit(session, &session->units[session->prefix++]);
}

/* Until the jobs have closed the pipe. */
static void gather(struct session *session, double end)
{
	struct pollfd poller = {.fd = session->results, .events = POLLIN};
	for (;;) {
		struct unit_result result;
		double left = end > 0 ? end - now() : 1;
		if (is_enough(session) || left <= 0)
			atomic_store(&session->shared->stop, true);
		int ready = poll(&poller, 1, left > 0 && left < 1 ? (int)(left * 1000) + 1 : 1000);
		if (ready < 0 && errno != EINTR)
			abort();
		if (ready <= 0)
			continue;
		if (read(session->results, &result, sizeof result) != (ssize_t)sizeof result)
			break;
		take_result(session, &result);
	}
	close(session->results);
	/* Where time decides, what was begun counts, too. */
	for (size_t i = session->prefix; i < session->capacity && !session->request->states; i++)
		take_unit(session, &session->units[i]);
}

/* The jobs only count: a violation is found once more, to be shown. */
static void show_violations(const struct session *session)
{
	char replay[100];
	unsigned shown = 0;
	snprintf(replay, sizeof replay, "crash_explore --seed %llu --workload",
	    (unsigned long long)session->request->seed);
	const struct crash_settings settings = {.report = stdout, .replay = replay};
	size_t count = session->request->states ? session->prefix : session->capacity;
	for (size_t i = 0; i < count && shown < REPORTS_MOST; i++) {
		struct crash_counts again = {0};
		if (session->units[i].counts.violations) {
			explore_unit(session->request, i, &settings, &again);
			shown++;
		}
	}
}

static int explore(const struct request *request)
{
	struct session session = {.request = request};
	double start = now();
	session.shared = mmap(NULL, sizeof *session.shared, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (session.shared == MAP_FAILED)
		abort();
	start_jobs(&session);
	gather(&session, request->seconds > 0 ? start + request->seconds : 0);
	wait_for_jobs(&session);
	double seconds = now() - start;
	show_violations(&session);
	printf("crash states checked %llu, skipped as seen %llu, violations %llu, seconds %.1f, "
	       "rate %.0f per second, short workloads %llu of %u\n",
	    (unsigned long long)session.total.checked, (unsigned long long)session.total.skipped,
	    (unsigned long long)session.total.violations, seconds,
	    (double)session.total.checked / seconds, (unsigned long long)session.shorts,
	    CRASH_EXHAUSTIVE);
	munmap(session.shared, sizeof *session.shared);
	free(session.units);
	return session.total.violations || session.died;
}

/* ---------------------------------------------------------------- one workload again */

static int explore_again(const struct request *request)
{
	struct crash_workload workload;
	struct crash_counts counts = {0};
	char replay[100];
	snprintf(replay, sizeof replay, "crash_explore --seed %llu --workload",
	    (unsigned long long)request->seed);
	struct crash_settings settings = {
	    .only = request->state, .report = stdout, .replay = replay, .export = request->export};
	if (!crash_workload_named(&workload, request->workload, request->seed)) {
		fprintf(stderr, "crash_explore: there is no workload \"%s\"\n", request->workload);
		return 2;
	}
	bool ok = crash_explore(&workload, &settings, &counts);
	crash_workload_release(&workload);
	printf("crash states checked %llu, skipped as seen %llu, violations %llu\n",
	    (unsigned long long)counts.checked, (unsigned long long)counts.skipped,
	    (unsigned long long)counts.violations);
	return !ok;
}

/* ---------------------------------------------------------------- the command line */

static const char usage[] =
    "crash_explore: crashes of a store on a simulated disk, and what it makes of them\n"
    "\n"
    "  --seconds N      explore for so long (10 unless --states is there)\n"
    "  --states N       explore until so many states are checked; CAIRN_TEST_STATES wins over N\n"
    "  --seed S         other states (1)\n"
    "  --jobs N         processes (one for each processor)\n"
    "  --exhaustive     only workloads of up to four operations, each of them once\n"
    "  --random         only random workloads\n"
    "  --both           both in turn (this is the default)\n"
    "  --workload NAME  this one again\n"
    "  --state N        of that, only this state\n"
    "  --export DIR     and write the store of a violation into DIR\n";

static bool read_number(const char *name, const char *text, uint64_t *number)
{
	char *end;
	errno = 0;
	*number = text ? strtoull(text, &end, 0) : 0;
	if (text && *text && !*end && !errno)
		return true;
	fprintf(stderr, "crash_explore: %s needs a number\n", name);
	return false;
}

/* An option with a value: whether both were good. */
static bool read_option(struct request *request, const char *name, const char *value)
{
	uint64_t number;
	if (strcmp(name, "--workload") == 0 && value) {
		request->workload = value;
		return true;
	}
	if (strcmp(name, "--export") == 0 && value) {
		request->export = value;
		return true;
	}
	if (!read_number(name, value, &number))
		return false;
	if (strcmp(name, "--seconds") == 0)
		request->seconds = (double)number;
	else if (strcmp(name, "--states") == 0)
		request->states = number;
	else if (strcmp(name, "--seed") == 0)
		request->seed = number;
	else if (strcmp(name, "--jobs") == 0)
		request->jobs = (unsigned)(number < JOBS_MOST ? number : JOBS_MOST);
	else if (strcmp(name, "--state") == 0)
		request->state = number;
	else
		return false;
	return true;
}

static bool read_arguments(struct request *request, int count, char **arguments)
{
	for (int i = 1; i < count; i++) {
		const char *name = arguments[i];
		if (strcmp(name, "--exhaustive") == 0)
			request->kinds = SHORT;
		else if (strcmp(name, "--random") == 0)
			request->kinds = RANDOM;
		else if (strcmp(name, "--both") == 0)
			request->kinds = BOTH;
		else if (!read_option(request, name, i + 1 < count ? arguments[++i] : NULL))
			return false;
	}
	const char *states = getenv("CAIRN_TEST_STATES");
	if (request->states && states &&
	    !read_number("CAIRN_TEST_STATES", states, &request->states))
		return false;
	if (!request->states && request->seconds == 0)
		request->seconds = 10;
	return request->jobs > 0;
}

int main(int count, char **arguments)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct request request = {
	    .seed = 1, .kinds = BOTH, .jobs = processors > 0 ? (unsigned)processors : 1};
	if (count == 2 && strcmp(arguments[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (!read_arguments(&request, count, arguments)) {
		fputs(usage, stderr);
		return 2;
	}
	return request.workload ? explore_again(&request) : explore(&request);
}
