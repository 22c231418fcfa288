/*
 * tests/scenario_s16_read_only_test.c -- S16: looking at a store changes nothing, where nothing can
 * be changed and where it could be.
 *
 * The store has runs and a log of several segments, as a process leaves it that is killed. It is
 * read on a read-only mount and by a user without the right to write: open, get, scan, verify, and
 * the tool's get, scan, dump, verify and stat. Expected: all answers are right, and not a byte, a
 * time or a name has changed; opening for writing says that it is read-only. A file of the next
 * version is named with both numbers, and left as it is by a writing open, too.
 *
 * CAIRN_TOOL is the program to test; without it, and where it cannot be reached, the library alone
 * is tested. Times of access are left out: they are the file system's.
 */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "format/bytes.h"
#include "format/checksum.h"
#include "store/cairn.h"
#include "tests/child.h"
#include "tests/match.h"
#include "tests/mounts.h"
#include "tests/tree.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define RECORDS      2000u
#define VERSION_AT   8u /* in the header of every kind of file */

struct scene {
	char *directory;
	char path[4200];
	struct model model;
	struct tree tree;
	bool private_paths; /* the child stands in `directory`: what is above may let nobody in */
	char *dump;         /* by the tool, while everything was allowed; NULL: there is no tool */
	size_t dump_size;
};

static cairn_slice text(const char *string)
{
	return (cairn_slice){string, strlen(string)};
}

static cairn_options with(int read_only)
{
	cairn_options options;
	cairn_options_init(&options);
	options.no_background = 1;
	options.memtable_bytes = 1u << 20;
	options.read_only = read_only;
	return options;
}

/* One record of the history: what the store gets, the model gets. */
static int write_record(cairn *db, struct model *model, uint64_t *random, unsigned i)
{
	static uint8_t value[4000];
	char key[16];
	cairn_slice slices[2] = {{key, (size_t)snprintf(key, sizeof key, "%05u",
					   (unsigned)(test_random(random) % RECORDS))},
	    {value, test_random(random) % sizeof value}};
	bool delete = test_random(random) % 5 == 0;
	memset(value, (int)(i % 251), sizeof value);
	if (!db)
		delete ? model_delete(model, slices[0]) : model_put(model, slices[0], slices[1]);
	else
		return delete ? cairn_delete(db, slices[0], 0)
			      : cairn_put(db, slices[0], slices[1], 0);
	return 0;
}

static int write_history(cairn *db, struct model *model)
{
	uint64_t random = 16;
	int rc = 0;
	for (unsigned i = 0; i < RECORDS && !rc; i++)
		rc = write_record(db, model, &random, i);
	return rc;
}

/* Ends without closing it. The last part of the history is in the log only. */
static int leave_a_store(void *path)
{
	cairn_options options = with(0);
	cairn *db;
	CHILD_CHECK(cairn_open(path, &options, &db) == 0);
	CHILD_CHECK(write_history(db, NULL) == 0);
	CHILD_CHECK(cairn_sync(db) == 0);
	CHILD_CHECK(cairn_close(db) == 0);
	options.memtable_bytes = 64u << 20;
	CHILD_CHECK(cairn_open(path, &options, &db) == 0);
	CHILD_CHECK(write_history(db, NULL) == 0);
	return 0;
}

/* Standard output of a shell command, which has to succeed. */
static char *output_of(const char *command, size_t *size)
{
	char *output = NULL, part[65536];
	FILE *pipe = popen(command, "r"), *whole = open_memstream(&output, size);
	if (!pipe || !whole)
		abort();
	for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;)
		fwrite(part, 1, n, whole);
	fclose(whole);
	if (pclose(pipe) == 0)
		return output;
	free(output);
	return NULL;
}

/* What the tool prints, given "COMMAND", the store and "MORE". */
static char *tool_says(const char *command, const char *path, const char *more, size_t *size)
{
	char line[9000];
	snprintf(line, sizeof line, "'%s' %s '%s' %s", getenv("CAIRN_TOOL"), command, path, more);
	return output_of(line, size);
}

static int enter(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	assert_non_null(scene);
	scene->directory = test_directory();
	snprintf(scene->path, sizeof scene->path, "%s/store", scene->directory);
	assert_int_equal(child_end(child_start(leave_a_store, scene->path)), 0);
	write_history(NULL, &scene->model);
	if (getenv("CAIRN_TOOL")) {
		scene->dump = tool_says("dump", scene->path, "", &scene->dump_size);
		assert_non_null(scene->dump);
	}
	tree_read(&scene->tree, scene->path);
	*state = scene;
	return 0;
}

static int leave(void **state)
{
	struct scene *scene = *state;
	tree_release(&scene->tree);
	model_release(&scene->model);
	free(scene->dump);
	test_remove_directory(scene->directory);
	free(scene);
	return 0;
}

/* ---------------------------------------------------------------- looking */

static int look_with_the_library(const char *path, const struct model *model)
{
	cairn_options options = with(1);
	cairn_stats stats;
	cairn *db;
	static uint8_t value[4000];
	size_t size;
	CHILD_CHECK(cairn_open(path, &options, &db) == 0);
	CHILD_CHECK(match_store(db, model));
	for (size_t i = 0; i < model->count; i++) {
		cairn_slice key = model_key(model, i);
		CHILD_CHECK(cairn_get(db, key, value, sizeof value, &size) == 0);
		CHILD_CHECK(model_equal((cairn_slice){value, size}, model_value(model, i)));
	}
	CHILD_CHECK(cairn_get(db, text("none"), NULL, 0, &size) == CAIRN_NOT_FOUND);
	CHILD_CHECK(cairn_put(db, text("k"), text("v"), 0) == CAIRN_READ_ONLY);
	CHILD_CHECK(cairn_stat(db, &stats) == 0 && stats.run_count > 0);
	CHILD_CHECK(cairn_close(db) == 0);
	CHILD_CHECK(match_verify(path));
	return 0;
}

static bool can_use_tool(const struct scene *scene)
{
	return scene->dump && access(getenv("CAIRN_TOOL"), X_OK) == 0;
}

static int look_with_the_tool(const struct scene *scene, const char *path)
{
	static const char *const commands[] = {"scan", "verify", "stat", "stat --json"};
	char key[64];
	size_t size;
	if (!can_use_tool(scene)) {
		printf("the tool is not tested here: CAIRN_TOOL names no program within reach\n");
		return 0;
	}
	char *output = tool_says("dump", path, "", &size);
	CHILD_CHECK(output && size == scene->dump_size && !memcmp(output, scene->dump, size));
	free(output);
	for (size_t i = 0; i < COUNT(commands); i++) {
		output = tool_says(commands[i], path, "", &size);
		CHILD_CHECK(output && size > 0);
		free(output);
	}
	cairn_slice first = model_key(&scene->model, 0);
	snprintf(key, sizeof key, "%.*s", (int)first.size, (const char *)first.data);
	output = tool_says("get --raw", path, key, &size);
	CHILD_CHECK(
	    output && model_equal((cairn_slice){output, size}, model_value(&scene->model, 0)));
	free(output);
	return 0;
}

/* In a child for which nothing can be written. */
static int look(const struct scene *scene)
{
	const char *path = scene->private_paths ? "store" : scene->path;
	cairn_options options = with(0);
	cairn *db = (cairn *)&db;
	size_t size;
	if (look_with_the_library(path, &scene->model) || look_with_the_tool(scene, path))
		return 1;
	for (int i = 0; i < 2; i++) {
		CHILD_CHECK(cairn_open(path, &options, &db) == CAIRN_READ_ONLY && !db);
		CHILD_CHECK(strstr(cairn_message(NULL), path));
		CHILD_CHECK(strstr(cairn_message(NULL), "read_only"));
		CHILD_CHECK(!can_use_tool(scene) || !tool_says("put", path, "k v 2>&1", &size));
	}
	return 0;
}

static void assert_untouched(const struct scene *scene)
{
	assert_true(tree_unchanged(&scene->tree, scene->path, TREE_ALL));
}

static void looking_leaves_no_mark_where_it_could(void **state)
{
	const struct scene *scene = *state;
	assert_int_equal(look_with_the_library(scene->path, &scene->model), 0);
	assert_int_equal(look_with_the_tool(scene, scene->path), 0);
	assert_untouched(scene);
}

static int look_at_a_read_only_mount(void *context)
{
	const struct scene *scene = context;
	cairn_options options = with(0);
	char path[4300];
	cairn *db;
	int result = mounts_enter();
	if (!result)
		result = mounts_read_only(scene->path);
	if (result)
		return result;
	snprintf(path, sizeof path, "%s/new", scene->path);
	CHILD_CHECK(cairn_open(path, &options, &db) == CAIRN_READ_ONLY && !db);
	CHILD_CHECK(strstr(cairn_message(NULL), path));
	return look(scene);
}

/* With the lock's file, and without: a copy has none. */
static void a_read_only_mount_is_enough(void **state)
{
	struct scene *scene = *state;
	char path[4300];
	run_in_child(look_at_a_read_only_mount, scene);
	assert_untouched(scene);
	snprintf(path, sizeof path, "%s/LOCK", scene->path);
	assert_int_equal(unlink(path), 0);
	tree_release(&scene->tree);
	tree_read(&scene->tree, scene->path);
	run_in_child(look_at_a_read_only_mount, scene);
	assert_untouched(scene);
}

/* For root permissions are no bounds, so it becomes somebody else. */
static int look_without_rights(void *context)
{
	const struct scene *scene = context;
	if (geteuid() == 0 && (setgid(65534) || setuid(65534))) {
		printf("skipped: root cannot become somebody else here: %s\n", strerror(errno));
		return CHILD_SKIP;
	}
	return look(scene);
}

static int enter_and_look_without_rights(void *context)
{
	const struct scene *scene = context;
	CHILD_CHECK(chdir(scene->directory) == 0);
	return look_without_rights(context);
}

static void permission_to_read_is_enough(void **state)
{
	struct scene *scene = *state;
	char command[4300];
	snprintf(command, sizeof command, "chmod -R a+rX,a-w '%s'", scene->directory);
	assert_int_equal(system(command), 0);
	tree_release(&scene->tree);
	tree_read(&scene->tree, scene->path);
	scene->private_paths = true;
	pid_t pid = child_start(enter_and_look_without_rights, scene);
	int status = child_end(pid);
	bool untouched = tree_unchanged(&scene->tree, scene->path, TREE_ALL);
	snprintf(command, sizeof command, "chmod -R u+w '%s'", scene->directory);
	assert_int_equal(system(command), 0);
	assert_true(untouched);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIP)
		skip();
	assert_int_equal(status, 0);
}

/* ---------------------------------------------------------------- the next version */

/* Where a kind of file has its checksum and what that covers; the end counts from the end of the
 * file when it is not positive. */
struct frame {
	const char *ending;
	int which; /* of the files that end so, in the order of their names; -1: the last */
	long checksum_at;
	long from, to;
};

static const struct frame frames[] = {
    {"MANIFEST", 0, -4, 0, -4}, {".kv", 0, 124, 0, 124}, {".kv", -1, 124, 0, 124},
    {".wal", 0, 12, 16, 4096}, {".wal", -1, 12, 16, 4096}, /* a part of the chain, not its end */
};

/* Not so a segment that is only set aside: it has room and nothing in it. */
static bool has_header(const char *path)
{
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	int byte = fgetc(file);
	fclose(file);
	return byte > 0;
}

/* The file's path; how many there are to choose from. */
static int find_file(const char *directory, const struct frame *frame, char *path, size_t path_size)
{
	struct dirent **names;
	int count = scandir(directory, &names, NULL, alphasort), found = 0;
	assert_true(count > 0);
	for (int i = 0; i < count; i++) {
		char candidate[4600];
		const char *name = names[i]->d_name;
		size_t size = strlen(name), tail = strlen(frame->ending);
		snprintf(candidate, sizeof candidate, "%s/%s", directory, name);
		if (size >= tail && !strcmp(name + size - tail, frame->ending) &&
		    has_header(candidate)) {
			if (frame->which < 0 || frame->which == found)
				snprintf(path, path_size, "%s", candidate);
			found++;
		}
		free(names[i]);
	}
	free(names);
	return found;
}

/* Raises the file's version by one, and makes it right in itself. */
static void raise_version(const char *path, const struct frame *frame)
{
	FILE *file = fopen(path, "r+b");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	long size = ftell(file);
	long to = frame->to > 0 ? frame->to : size + frame->to;
	long checksum_at = frame->checksum_at > 0 ? frame->checksum_at : size + frame->checksum_at;
	uint8_t *bytes = malloc((size_t)size);
	assert_non_null(bytes);
	rewind(file);
	assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
	const uint8_t *covered = bytes + frame->from;
	size_t covered_size = (size_t)(to - frame->from);
	assert_int_equal(
	    cairn_get32(bytes + checksum_at), cairn_checksum(covered, covered_size, 0));
	assert_int_equal(cairn_get32(bytes + VERSION_AT), 1);
	cairn_put32(bytes + VERSION_AT, 2);
	cairn_put32(bytes + checksum_at, cairn_checksum(covered, covered_size, 0));
	rewind(file);
	assert_int_equal(fwrite(bytes, 1, (size_t)size, file), size);
	assert_int_equal(fclose(file), 0);
	free(bytes);
}

static bool names_both(const char *message, const char *path)
{
	return strstr(message, path) && strstr(message, "version 2") &&
	       strstr(message, "version 1");
}

struct search {
	const char *path;
	bool found;
};

static int look_for_both(void *context, const cairn_finding *finding)
{
	struct search *search = context;
	if (finding->code == CAIRN_UNSUPPORTED && !strcmp(finding->path, search->path))
		search->found = names_both(finding->message, "");
	return 0;
}

static void assert_named_and_left(const char *copy, const char *path)
{
	struct tree before;
	struct search search = {path, false};
	tree_read(&before, copy);
	for (int read_only = 1; read_only >= 0; read_only--) {
		cairn_options options = with(read_only);
		cairn *db = (cairn *)&db;
		assert_int_equal(cairn_open(copy, &options, &db), CAIRN_UNSUPPORTED);
		assert_null(db);
		if (!names_both(cairn_message(NULL), path))
			fail_msg("%s", cairn_message(NULL));
		if (read_only) {
			assert_true(cairn_verify(copy, NULL, look_for_both, &search) < 0);
			assert_true(search.found);
			assert_true(tree_unchanged(&before, copy, TREE_ALL));
		}
	}
	/* Whoever opens for writing has the lock before it looks: that file has changed. */
	struct tree after;
	tree_read(&after, copy);
	tree_forget(&before, "LOCK");
	tree_forget(&after, "LOCK");
	assert_true(tree_same(&after, &before, TREE_ALL));
	tree_release(&after);
	tree_release(&before);
}

static void the_next_version_is_named_and_left_alone(void **state)
{
	struct scene *scene = *state;
	char copy[4300], path[4600], command[9000];
	for (size_t i = 0; i < COUNT(frames); i++) {
		snprintf(copy, sizeof copy, "%s/copy%zu", scene->directory, i);
		snprintf(command, sizeof command, "cp -a '%s' '%s'", scene->path, copy);
		assert_int_equal(system(command), 0);
		int found = find_file(copy, &frames[i], path, sizeof path);
		assert_true(found > (frames[i].which < 0));
		raise_version(path, &frames[i]);
		assert_named_and_left(copy, path);
	}
	assert_untouched(scene);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(looking_leaves_no_mark_where_it_could),
	    TEST(a_read_only_mount_is_enough),
	    TEST(permission_to_read_is_enough),
	    TEST(the_next_version_is_named_and_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
