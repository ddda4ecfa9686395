// SPDX-License-Identifier: Apache-2.0
// A program in C: everything that sinter_c.h has but the engine, right and wrong.
#include "c_program.h"

#include <sinter/arrow_abi.h>
#include <sinter/sinter_c.h>
#include <stdlib.h>
#include <string.h>

#include "c_checks.h"

static int released, logged, taken, given_back;

static void count_release(void* user) { released += *(const int*)user; }
static void count_log(void* user, sinter_log_level level, const char* message) {
  (void)user;
  if (level == SINTER_LOG_INFO && strlen(message) > 0) ++logged;
}
static void* take(void* user, sinter_memory memory, int32_t device, size_t bytes,
                  size_t alignment) {
  char* start = (char*)malloc(bytes + 2 * alignment);
  char* data = start + alignment - (size_t)start % alignment;
  (void)user;
  (void)device;
  if (memory != SINTER_HOST || start == NULL) return NULL;
  data[-1] = (char)(data - start);  // alignments of up to 64
  ++taken;
  return data;
}
static void give_back(void* user, void* data, sinter_memory memory, int32_t device, size_t bytes,
                      size_t alignment) {
  (void)user, (void)memory, (void)device, (void)bytes, (void)alignment;
  free((char*)data - ((char*)data)[-1]);
  ++given_back;
}

static sinter_tensor tensor(const float* data, const int64_t* shape, size_t count) {
  sinter_tensor result = {sizeof result};
  result.dtype = SINTER_FLOAT32;
  result.rank = 1;
  result.shape = shape;
  result.data = data;
  result.bytes = count * sizeof(float);
  result.device = -1;
  return result;
}

static int describe(const sinter_plan* plan) {
  sinter_binding binding = {sizeof binding};
  sinter_plan_facts facts = {sizeof facts};
  sinter_entry entry = {sizeof entry};
  size_t index = 77, other = 77;
  CHECK(sinter_plan_input_count(plan) == 1 && sinter_plan_output_count(plan) == 1);
  CHECK(sinter_plan_state_count(plan) == 0 && sinter_plan_entry_count(plan) == 0);
  OK(sinter_plan_input(plan, 0, &binding));
  CHECK(strcmp(binding.name, "x") == 0 && binding.dtype == SINTER_FLOAT32);
  CHECK(binding.rank == 1 && strcmp(binding.shape[0].text, "n") == 0 && binding.shape[0].min == 1);
  CHECK(binding.state == -1 && binding.struct_size == sizeof binding);
  OK(sinter_plan_output_index(plan, "y", &index));
  CHECK(index == 0);
  OK(sinter_plan_get_facts(plan, &facts));
  CHECK(strcmp(facts.target, "cpu") == 0 && facts.step_count == 1 && facts.architecture_count == 0);
  CHECK(strcmp(facts.model_name, "") == 0);
  FAILS(sinter_plan_input_index(plan, "z", &index), SINTER_ERROR_USAGE, "there is no input 'z'");
  FAILS(sinter_plan_input(plan, 1, &binding), SINTER_ERROR_USAGE, "there is no input 1");
  FAILS(sinter_plan_entry(plan, 0, &entry), SINTER_ERROR_USAGE, "there is no entry point 0");
  FAILS(sinter_plan_state(plan, 0, &index, &other), SINTER_ERROR_USAGE, "there is no state 0");
  CHECK(index == 0 && other == 77);
  FAILS(sinter_plan_input(NULL, 0, &binding), SINTER_ERROR_USAGE, "plan is NULL");
  binding.struct_size = 3;
  FAILS(sinter_plan_input(plan, 0, &binding), SINTER_ERROR_USAGE, "struct_size of 3");
  return 0;
}

static int run(sinter_session* session) {
  const int64_t shape = 3;
  const float x[3] = {1, 2, 3};
  float y[3] = {0, 0, 0}, used[3] = {5, 6, 7};
  sinter_tensor input = tensor(x, &shape, 3), output = {sizeof output};
  sinter_mutable_tensor target = {sizeof target};
  sinter_memory_account account = {sizeof account};
  sinter_input_shape known = {0, 1, NULL};
  const char* entry = NULL;
  uint64_t launches = 0;

  FAILS(sinter_session_run(session), SINTER_ERROR_USAGE, "input 'x' is not set");
  FAILS(sinter_session_output(session, 0, &output), SINTER_ERROR_USAGE, "before a run");
  OK(sinter_session_set_input(session, 0, &input));
  OK(sinter_session_run(session));
  OK(sinter_session_output(session, 0, &output));
  CHECK(output.rank == 1 && output.shape[0] == 3 && output.bytes == 12);
  CHECK(output.memory == SINTER_HOST && output.dtype == SINTER_FLOAT32);
  CHECK(((const float*)output.data)[2] == 6);

  // In memory of the program's, on both sides.
  input = tensor(used, &shape, 3);
  OK(sinter_session_use_input(session, 0, &input));
  target.dtype = SINTER_FLOAT32;
  target.rank = 1;
  target.shape = &shape;
  target.data = y;
  target.bytes = sizeof y;
  OK(sinter_session_set_output(session, 0, &target));
  OK(sinter_session_run_async(session, NULL));
  OK(sinter_session_await(session));
  CHECK(y[0] == 10 && y[2] == 14);
  OK(sinter_session_set_output(session, 0, NULL));
  OK(sinter_session_entry(session, &entry));
  CHECK(strcmp(entry, "") == 0);
  OK(sinter_session_launches(session, &launches));
  CHECK(launches == 1);

  // Wrong in every way.
  input.bytes = 8;
  FAILS(sinter_session_set_input(session, 0, &input), SINTER_ERROR_USAGE,
        "takes 12 bytes; 8 are given");
  input.bytes = 12;
  input.dtype = SINTER_INT32;
  FAILS(sinter_session_set_input(session, 0, &input), SINTER_ERROR_USAGE, "of type i32");
  input.dtype = 99;
  FAILS(sinter_session_set_input(session, 0, &input), SINTER_ERROR_USAGE, "type 99");
  input.dtype = SINTER_FLOAT32;
  input.rank = -1;
  FAILS(sinter_session_set_input(session, 0, &input), SINTER_ERROR_USAGE, "-1 dimensions");
  input.rank = 1;
  input.shape = NULL;
  FAILS(sinter_session_set_input(session, 0, &input), SINTER_ERROR_USAGE, "shape is NULL");
  input.shape = &shape;
  input.memory = SINTER_DEVICE;
  FAILS(sinter_session_set_input(session, 0, &input), SINTER_ERROR_USAGE, "device memory");
  input.memory = 5;
  FAILS(sinter_session_set_input(session, 0, &input), SINTER_ERROR_USAGE, "no memory 5");
  FAILS(sinter_session_set_input(session, 4, &input), SINTER_ERROR_USAGE, "there is no input 4");
  FAILS(sinter_session_set_input(session, 0, NULL), SINTER_ERROR_USAGE, "tensor is NULL");
  FAILS(sinter_session_run(NULL), SINTER_ERROR_USAGE, "session is NULL");
  target.data = NULL;
  FAILS(sinter_session_set_output(session, 0, &target), SINTER_ERROR_USAGE, "has no data");

  OK(sinter_session_reset_state(session));
  known.shape = &shape;
  OK(sinter_session_warm_up(session, &known, 1));
  FAILS(sinter_session_warm_up(session, NULL, 1), SINTER_ERROR_USAGE, "shapes is NULL");
  OK(sinter_session_memory(session, &account));
  CHECK(account.io > 0);
  return 0;
}

static int share(sinter_session* session) {
  // DLManagedTensorVersioned: version, context, deleter.
  struct managed {
    uint32_t version[2];
    void* context;
    void (*deleter)(struct managed*);
  }* lent = NULL;
  OK(sinter_session_run(session));
  OK(sinter_session_output_dlpack(session, 0, (void**)&lent));
  FAILS(sinter_session_run(session), SINTER_ERROR_USAGE, "lent out");
  lent->deleter(lent);
  OK(sinter_session_run(session));
  return 0;
}

static void release_schema(struct ArrowSchema* schema) { schema->release = NULL; }
static void release_array(struct ArrowArray* array) { array->release = NULL; }

static int columns(sinter_session* session) {
  const float values[3] = {1, 2, 3};
  const void* buffers[2] = {NULL, values};
  const void* none[1] = {NULL};
  struct ArrowSchema column_type = {"f", "age", NULL, 0, 0, NULL, NULL, release_schema, NULL};
  struct ArrowArray column = {3, 0, 0, 2, 0, buffers, NULL, NULL, release_array, NULL};
  struct ArrowSchema* types[1] = {&column_type};
  struct ArrowArray* arrays[1] = {&column};
  struct ArrowSchema type = {"+s", "", NULL, 0, 1, types, NULL, release_schema, NULL}, out_type;
  struct ArrowArray batch = {3, 0, 0, 1, 1, none, arrays, NULL, release_array, NULL}, out;
  struct ArrowDeviceArray device = {{0}, -1, ARROW_DEVICE_CPU, NULL, {0}};
  const char* names[1] = {"age"};
  sinter_input_columns input = {0, names, 1, NULL};
  sinter_batch_options options = {sizeof options};
  int32_t in_place = 7;
  options.inputs = &input;
  options.input_count = 1;
  device.array = batch;
  OK(sinter_session_bind_record_batch(session, &type, &batch, &options, &in_place));
  CHECK(in_place == 1);
  OK(sinter_session_run(session));
  OK(sinter_session_outputs_arrow(session, &out_type, &out));
  CHECK(out.length == 3 && strcmp(out_type.children[0]->name, "y") == 0);
  CHECK(((const float*)out.children[0]->buffers[1])[2] == 6);
  out_type.release(&out_type);
  out.release(&out);
  options.rows = 2;
  options.copy = 1;
  OK(sinter_session_bind_device_record_batch(session, &type, &device, &options, NULL));
  OK(sinter_session_run(session));
  OK(sinter_session_output_arrow(session, 0, &out_type, &out));
  CHECK(out.length == 2);
  out_type.release(&out_type);
  out.release(&out);
  OK(sinter_session_output_arrow_device(session, 0, &out_type, &device));
  CHECK(device.device_type == ARROW_DEVICE_CPU);
  out_type.release(&out_type);
  device.array.release(&device.array);
  OK(sinter_session_outputs_arrow_device(session, &out_type, &device));
  out_type.release(&out_type);
  device.array.release(&device.array);
  FAILS(sinter_session_bind_record_batch(session, NULL, &batch, NULL, NULL), SINTER_ERROR_USAGE,
        "schema is NULL");
  names[0] = "height";
  FAILS(sinter_session_bind_record_batch(session, &type, &batch, &options, &in_place),
        SINTER_ERROR_USAGE, "has no column 'height'; it has age");
  options.nulls = 9;
  FAILS(sinter_session_bind_record_batch(session, &type, &batch, &options, NULL),
        SINTER_ERROR_USAGE, "no way 9");
  options.nulls = SINTER_NULLS_NAN;
  input.input = 5;
  FAILS(sinter_session_bind_record_batch(session, &type, &batch, &options, NULL),
        SINTER_ERROR_USAGE, "there is no input 5");
  input.input = 0;
  names[0] = NULL;
  FAILS(sinter_session_bind_record_batch(session, &type, &batch, &options, NULL),
        SINTER_ERROR_USAGE, "column 0 is NULL");
  FAILS(sinter_session_output_arrow(session, 0, &out_type, NULL), SINTER_ERROR_USAGE,
        "no structure");
  return 0;
}

/* A program that was compiled with a later header. */
struct later_options {
  sinter_session_options options;
  int64_t news;
};

static int options(const sinter_plan* plan) {
  struct later_options later = {{sizeof later}, 0};
  sinter_session_options wrong = {sizeof wrong};
  sinter_allocator allocator = {sizeof allocator, NULL, take, give_back};
  sinter_session* session = NULL;
  const int64_t shape = 2;
  const float x[2] = {1, 2};
  const sinter_tensor input = tensor(x, &shape, 2);
  later.options.threads = 1;
  OK(sinter_session_create(plan, &later.options, &session));
  sinter_session_free(session);
  session = NULL;
  later.news = 1;
  FAILS(sinter_session_create(plan, &later.options, &session), SINTER_ERROR_USAGE, "update Sinter");
  wrong.threads = -1;
  FAILS(sinter_session_create(plan, &wrong, &session), SINTER_ERROR_USAGE, "threads is -1");
  CHECK(session == NULL);
  wrong.threads = 1;
  wrong.allocator = &allocator;
  OK(sinter_session_create(plan, &wrong, &session));
  OK(sinter_session_set_input(session, 0, &input));
  OK(sinter_session_run(session));
  sinter_session_free(session);
  CHECK(taken > 0 && taken == given_back);
  return 0;
}

static int load(const char* path, const void* bytes, size_t size, sinter_plan** plan) {
  char* aligned = (char*)malloc(size + 128);
  char* start = aligned + 64 - (size_t)aligned % 64;
  int one = 1;
  memcpy(start, bytes, size);
  OK(sinter_plan_borrow(start, size, count_release, &one, plan));
  CHECK(describe(*plan) == 0);
  CHECK(released == 0);
  sinter_plan_free(*plan);
  CHECK(released == 1);
  *plan = NULL;
  FAILS(sinter_plan_borrow(start + 1, size, count_release, &one, plan), SINTER_ERROR_USAGE,
        "not aligned to 64");
  CHECK(released == 2);
  FAILS(sinter_plan_borrow(start, size, count_release, &one, NULL), SINTER_ERROR_USAGE,
        "plan is NULL");
  CHECK(released == 3);
  free(aligned);
  FAILS(sinter_plan_load("/nowhere.plan", plan), SINTER_ERROR_USAGE, "/nowhere.plan");
  FAILS(sinter_plan_load(NULL, plan), SINTER_ERROR_USAGE, "path is NULL");
  FAILS(sinter_plan_from_memory("abc", 3, plan), SINTER_ERROR_INVALID_PLAN, "not a Sinter plan");
  FAILS(sinter_plan_from_memory(NULL, 3, plan), SINTER_ERROR_USAGE, "bytes is NULL");
  CHECK(*plan == NULL);
  OK(sinter_plan_load(path, plan));
  sinter_plan_free(*plan);
  FAILS(sinter_plan_load_copy("/nowhere.plan", plan), SINTER_ERROR_USAGE, "/nowhere.plan");
  FAILS(sinter_plan_load_copy(NULL, plan), SINTER_ERROR_USAGE, "path is NULL");
  OK(sinter_plan_load_copy(path, plan));
  CHECK(describe(*plan) == 0);
  sinter_plan_free(*plan);
  OK(sinter_plan_from_memory(bytes, size, plan));
  return 0;
}

/* What is refused without an engine; c_engine.c has one. */
static int no_engine(const sinter_plan* plan) {
  sinter_engine* engine = NULL;
  sinter_engine_options options = {sizeof options};
  sinter_engine_stats stats = {sizeof stats};
  FAILS(sinter_engine_create(plan, NULL, &engine), SINTER_ERROR_USAGE, "--serve");
  FAILS(sinter_engine_create(NULL, NULL, &engine), SINTER_ERROR_USAGE, "plan is NULL");
  options.priority_seconds = -1;
  FAILS(sinter_engine_create(plan, &options, &engine), SINTER_ERROR_USAGE, "priority_seconds");
  CHECK(engine == NULL);
  FAILS(sinter_engine_drain(engine), SINTER_ERROR_USAGE, "engine is NULL");
  FAILS(sinter_engine_get_stats(engine, &stats), SINTER_ERROR_USAGE, "engine is NULL");
  sinter_engine_free(engine);
  CHECK(strcmp(sinter_finish_name(SINTER_FINISH_LENGTH), "length") == 0);
  CHECK(strcmp(sinter_finish_name(6), "unknown") == 0);
  CHECK(strcmp(sinter_status_name(SINTER_ERROR_ENGINE_STOPPED), "engine_stopped") == 0);
  CHECK(strcmp(sinter_status_name(11), "unknown") == 0);
  return 0;
}

static int devices(void) {
  size_t count = 99;
  const char* problem = NULL;
  sinter_gpu_info info = {sizeof info};
  sinter_device_buffer* buffer = NULL;
  OK(sinter_gpu_count(&count, &problem));
  CHECK((count == 0) == (strlen(problem) > 0));
  FAILS(sinter_gpu(count, &info), SINTER_ERROR_USAGE, "there is no GPU");
  FAILS(sinter_device_buffer_create((int32_t)count, 64, &buffer), SINTER_ERROR_DEVICE, "");
  CHECK(buffer == NULL && sinter_device_buffer_data(buffer) == NULL);
  FAILS(sinter_device_buffer_write(NULL, 0, "a", 1), SINTER_ERROR_USAGE, "buffer is NULL");
  FAILS(sinter_device_buffer_read(NULL, 0, &count, 1), SINTER_ERROR_USAGE, "buffer is NULL");
  sinter_device_buffer_free(NULL);
  return 0;
}

static int pool(void) {
  sinter_thread_pool_options options = {sizeof options};
  int32_t before = 0, now = 0;
  OK(sinter_thread_pool_size(&before));
  CHECK(before > 0);
  options.threads = 2;
  options.spin_microseconds = -1;
  OK(sinter_set_thread_pool(&options));
  OK(sinter_thread_pool_size(&now));
  CHECK(now == 2);
  options.threads = -3;
  FAILS(sinter_set_thread_pool(&options), SINTER_ERROR_USAGE, "-3");
  options.threads = 0;
  options.spin_microseconds = -2;
  FAILS(sinter_set_thread_pool(&options), SINTER_ERROR_USAGE, "-2 microseconds");
  options.spin_microseconds = 0;
  options.cpu_count = 1;
  FAILS(sinter_set_thread_pool(&options), SINTER_ERROR_USAGE, "cpus is NULL");
  options.cpu_count = 0;
  options.threads = before;
  OK(sinter_set_thread_pool(&options));
  FAILS(sinter_set_thread_pool(NULL), SINTER_ERROR_USAGE, "options is NULL");
  return 0;
}

int sinter_test_c_program(const char* path, const void* bytes, size_t size) {
  sinter_plan* plan = NULL;
  sinter_session* session = NULL;
  CHECK(sinter_c_abi_version() == SINTER_C_ABI_VERSION);
  CHECK(strcmp(sinter_version(), SINTER_VERSION) == 0);
  CHECK(strcmp(sinter_status_name(SINTER_ERROR_OUT_OF_MEMORY), "out_of_memory") == 0);
  CHECK(strcmp(sinter_status_name(-5), "unknown") == 0);
  CHECK(sinter_dtype_size(SINTER_BFLOAT16) == 2 && sinter_dtype_size(13) == 1 &&
        sinter_dtype_size(17) == 0);
  OK(sinter_set_logger(count_log, NULL, SINTER_LOG_INFO));
  STEP(load(path, bytes, size, &plan));
  STEP(options(plan));
  STEP(no_engine(plan));
  OK(sinter_session_create(plan, NULL, &session));
  OK(sinter_set_logger(NULL, NULL, SINTER_LOG_INFO));
  FAILS(sinter_set_logger(count_log, NULL, 9), SINTER_ERROR_USAGE, "log level 9");
  CHECK(logged >= 2);
  sinter_plan_free(plan);  // the session keeps what it needs
  STEP(run(session));
  STEP(share(session));
  STEP(columns(session));
  sinter_session_free(session);
  sinter_session_free(NULL);
  sinter_plan_free(NULL);
  STEP(devices());
  STEP(pool());
  return 0;
}
