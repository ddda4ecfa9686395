// SPDX-License-Identifier: Apache-2.0
// The C ABI: versions, errors, plans, process-wide settings.
#include <sinter/log.h>
#include <sinter/threads.h>
#include <sinter/version.h>

#include "runtime/c/c_handles.h"
#include "runtime/c/c_support.h"
#include "runtime/format_error.h"
#include "runtime/plan_access.h"

namespace sinter::c {
namespace {

static_assert(SINTER_ERROR_USAGE == static_cast<int>(ErrorCode::kUsage));
static_assert(SINTER_ERROR_UNSUPPORTED == static_cast<int>(ErrorCode::kUnsupported));
static_assert(SINTER_ERROR_INVALID_MODEL == static_cast<int>(ErrorCode::kInvalidModel));
static_assert(SINTER_ERROR_INVALID_PLAN == static_cast<int>(ErrorCode::kInvalidPlan));
static_assert(SINTER_ERROR_OUT_OF_MEMORY == static_cast<int>(ErrorCode::kOutOfMemory));
static_assert(SINTER_ERROR_DEVICE == static_cast<int>(ErrorCode::kDevice));
static_assert(SINTER_ERROR_INTERNAL == static_cast<int>(ErrorCode::kInternal));
static_assert(SINTER_ERROR_CANCELLED == static_cast<int>(ErrorCode::kCancelled));
static_assert(SINTER_BOOL == static_cast<int>(DType::kBool));
static_assert(SINTER_INT64 == static_cast<int>(DType::kInt64));
static_assert(SINTER_UINT64 == static_cast<int>(DType::kUInt64));
static_assert(SINTER_FLOAT64 == static_cast<int>(DType::kFloat64));
static_assert(SINTER_FLOAT8_E5M2FNUZ == static_cast<int>(DType::kFloat8E5M2FNUZ) &&
              kDTypeCount == 17);
static_assert(SINTER_LOG_WARNING == static_cast<int>(LogLevel::kWarning));
static_assert(SINTER_LOG_ERROR == static_cast<int>(LogLevel::kError));

thread_local std::string last_error_text;
thread_local const char* last_error = "";

std::vector<sinter_dim> dims_of(const std::vector<DimInfo>& dims) {
  std::vector<sinter_dim> result;
  for (const DimInfo& dim : dims) result.push_back({dim.text.c_str(), dim.min, dim.max});
  return result;
}

void write_binding(const std::vector<BindingInfo>& bindings,
                   const std::vector<std::vector<sinter_dim>>& shapes, std::size_t index,
                   const char* what, sinter_binding* to) {
  const BindingInfo& info = bindings[checked_index(index, bindings.size(), what)];
  sinter_binding binding{};
  binding.name = info.name.c_str();
  binding.dtype = static_cast<sinter_dtype>(info.dtype);
  binding.rank = static_cast<std::int32_t>(shapes[index].size());
  binding.shape = shapes[index].data();
  binding.state = info.state ? static_cast<std::int64_t>(*info.state) : -1;
  write_struct(to, binding, "binding");
}

template <typename Load>
sinter_status make_plan(sinter_plan** plan, const Load& load) {
  return guarded([&] {
    given(plan, "plan");
    *plan = plans().add(std::make_shared<PlanObject>(load()));
  });
}

}  // namespace

std::uintptr_t next_handle() {
  static std::atomic<std::uintptr_t> last{0};
  return ++last;
}

// Never destroyed: other threads may still use plans that the program has not freed when it ends.
Handles<sinter_plan, PlanObject>& plans() {
  static auto& handles = *new Handles<sinter_plan, PlanObject>("plan");
  return handles;
}

Handles<sinter_session, SessionObject>& sessions() {
  static auto& handles = *new Handles<sinter_session, SessionObject>("session");
  return handles;
}

Handles<sinter_device_buffer, DeviceBuffer>& device_buffers() {
  static auto& handles = *new Handles<sinter_device_buffer, DeviceBuffer>("buffer");
  return handles;
}

Handles<sinter_engine, Engine>& engines() {
  static auto& handles = *new Handles<sinter_engine, Engine>("engine");
  return handles;
}

PlanObject::PlanObject(Plan plan_in) : plan(std::move(plan_in)) {
  for (const BindingInfo& input : plan.inputs()) inputs.push_back(dims_of(input.shape));
  for (const BindingInfo& output : plan.outputs()) outputs.push_back(dims_of(output.shape));
  for (const EntryInfo& entry : plan.entries()) entries.push_back(dims_of(entry.limits));
  for (const std::string& name : plan.architectures()) architectures.push_back(name.c_str());
  for (const auto& [key, value] : plan.options()) options.push_back({key.c_str(), value.c_str()});
  for (const MeasuredError& error : plan.measured_errors())
    measured.push_back({error.output.c_str(), error.relative_error});
  for (const std::string& name : plan.custom_code()) custom_code.push_back(name.c_str());
}

sinter_status fail(sinter_status status, const char* message) noexcept {
  try {
    last_error_text = message;
    last_error = last_error_text.c_str();
  } catch (...) {
    last_error = "there is no memory left, not even for the message";
  }
  return status;
}

}  // namespace sinter::c

using namespace sinter;
using c::given;
using c::guarded;

extern "C" {

uint32_t sinter_c_abi_version(void) { return SINTER_C_ABI_VERSION; }
const char* sinter_version(void) { return SINTER_VERSION; }

const char* sinter_status_name(sinter_status status) {
  if (status == SINTER_OK) return "ok";
  if (status == SINTER_ERROR_QUEUE_FULL) return "queue_full";
  if (status == SINTER_ERROR_ENGINE_STOPPED) return "engine_stopped";
  if (status < SINTER_ERROR_USAGE || status > SINTER_ERROR_CANCELLED) return "unknown";
  return to_string(static_cast<ErrorCode>(status)).data();
}

const char* sinter_last_error(void) { return c::last_error; }

size_t sinter_dtype_size(sinter_dtype dtype) {
  return dtype < 0 || dtype >= kDTypeCount ? 0 : size_of(static_cast<DType>(dtype));
}

sinter_status sinter_plan_load(const char* path, sinter_plan** plan) {
  return c::make_plan(plan, [&] { return Plan::load(&given(path, "path")); });
}

sinter_status sinter_plan_load_copy(const char* path, sinter_plan** plan) {
  return c::make_plan(plan, [&] {
    LoadOptions options;
    options.copy = true;
    return Plan::load(&given(path, "path"), options);
  });
}

sinter_status sinter_plan_load_with(const char* path, const sinter_load_options* options,
                                    sinter_plan** plan) {
  return c::make_plan(plan, [&] {
    LoadOptions how;
    if (options) {
      const auto said =
          c::read_struct(options, "options", offsetof(sinter_load_options, require_signature));
      how.copy = said.copy != 0;
      how.allow_custom_code = said.refuse_custom_code == 0;
      if (said.require_signature != nullptr) how.require_signature = said.require_signature;
      for (const char* library : c::given_array(said.operator_libraries,
                                                said.operator_library_count, "operator_libraries"))
        how.operator_libraries.push_back(
            OperatorLibrary::open(&given(library, "an operator library")));
      for (const auto* table :
           c::given_array(said.operator_tables, said.operator_table_count, "operator_tables"))
        how.operator_libraries.push_back(
            OperatorLibrary::of_table(given(table, "an operator table"), "the program's own"));
    }
    return Plan::load(&given(path, "path"), how);
  });
}

sinter_status sinter_plan_from_memory(const void* bytes, size_t size, sinter_plan** plan) {
  return c::make_plan(plan, [&] {
    return Plan::from_memory(c::given_array(static_cast<const std::byte*>(bytes), size, "bytes"));
  });
}

sinter_status sinter_plan_borrow(const void* bytes, size_t size, void (*release)(void* user),
                                 void* user, sinter_plan** plan) {
  return guarded([&] {
    // From here on the last owner releases the bytes, also if this call fails: a shared_ptr calls
    // its deleter even if its construction throws.
    std::shared_ptr<const void> owner;
    if (release) owner = std::shared_ptr<const void>(bytes, [=](const void*) { release(user); });
    given(plan, "plan");
    const auto held = c::given_array(static_cast<const std::byte*>(bytes), size, "bytes");
    *plan = c::plans().add(std::make_shared<c::PlanObject>(Plan::borrow(held, std::move(owner))));
  });
}

void sinter_plan_free(sinter_plan* plan) { c::plans().remove(plan); }

size_t sinter_plan_input_count(const sinter_plan* plan) {
  const auto object = c::plans().find(plan);
  return object ? object->inputs.size() : 0;
}
size_t sinter_plan_output_count(const sinter_plan* plan) {
  const auto object = c::plans().find(plan);
  return object ? object->outputs.size() : 0;
}
size_t sinter_plan_entry_count(const sinter_plan* plan) {
  const auto object = c::plans().find(plan);
  return object ? object->entries.size() : 0;
}
size_t sinter_plan_state_count(const sinter_plan* plan) {
  const auto object = c::plans().find(plan);
  return object ? object->plan.states().size() : 0;
}

sinter_status sinter_plan_input(const sinter_plan* plan, size_t index, sinter_binding* binding) {
  return guarded([&] {
    const auto object = c::plans().at(plan);
    c::write_binding(object->plan.inputs(), object->inputs, index, "input", binding);
  });
}

sinter_status sinter_plan_output(const sinter_plan* plan, size_t index, sinter_binding* binding) {
  return guarded([&] {
    const auto object = c::plans().at(plan);
    c::write_binding(object->plan.outputs(), object->outputs, index, "output", binding);
  });
}

sinter_status sinter_plan_input_index(const sinter_plan* plan, const char* name, size_t* index) {
  return guarded(
      [&] { given(index, "index") = c::plans().at(plan)->plan.input_index(&given(name, "name")); });
}

sinter_status sinter_plan_output_index(const sinter_plan* plan, const char* name, size_t* index) {
  return guarded([&] {
    given(index, "index") = c::plans().at(plan)->plan.output_index(&given(name, "name"));
  });
}

sinter_status sinter_plan_state(const sinter_plan* plan, size_t index, size_t* input,
                                size_t* output) {
  return guarded([&] {
    const auto object = c::plans().at(plan);
    const auto& states = object->plan.states();
    const StateInfo& state = states[checked_index(index, states.size(), "state")];
    given(output, "output");
    given(input, "input") = state.input;
    *output = state.output;
  });
}

sinter_status sinter_plan_entry(const sinter_plan* plan, size_t index, sinter_entry* entry) {
  return guarded([&] {
    const auto object = c::plans().at(plan);
    checked_index(index, object->entries.size(), "entry point");
    sinter_entry value{};
    value.name = object->plan.entries()[index].name.c_str();
    value.limit_count = object->entries[index].size();
    value.limits = object->entries[index].data();
    c::write_struct(entry, value, "entry");
  });
}

sinter_status sinter_plan_get_facts(const sinter_plan* plan, sinter_plan_facts* facts) {
  return guarded([&] {
    const auto object = c::plans().at(plan);
    const Plan& of = object->plan;
    sinter_plan_facts value{};
    // These views are empty, or cover whole zero-terminated strings.
    const auto text = [](std::string_view view) { return view.empty() ? "" : view.data(); };
    value.target = text(of.target());
    value.architectures = object->architectures.data();
    value.architecture_count = object->architectures.size();
    value.step_count = of.step_count();
    value.weight_bytes = of.weight_bytes();
    value.compiler_version = text(of.compiler_version());
    value.format_version = of.format_version();
    value.cuda_version = of.cuda_version();
    value.model_name = text(of.model_name());
    value.model_hash = of.model_hash();
    value.options = object->options.data();
    value.option_count = object->options.size();
    value.measured_errors = object->measured.data();
    value.measured_error_count = object->measured.size();
    value.graph_text = text(of.graph_text());
    value.custom_code = object->custom_code.data();
    value.custom_code_count = object->custom_code.size();
    c::write_struct(facts, value, "facts", offsetof(sinter_plan_facts, custom_code));
  });
}

sinter_status sinter_set_thread_pool(const sinter_thread_pool_options* options) {
  return guarded([&] {
    const auto said = c::read_struct(options, "options");
    ThreadPoolOptions pool;
    pool.threads = said.threads;
    if (said.spin_microseconds < -1)
      throw usage_error(
          "{} microseconds of looking for work are not possible; 0 is the default, -1 none",
          said.spin_microseconds);
    if (said.spin_microseconds != 0) pool.spin_microseconds = std::max(0, said.spin_microseconds);
    pool.cpus = c::copied(said.cpus, said.cpu_count, "cpus");
    set_thread_pool(pool);
  });
}

sinter_status sinter_thread_pool_size(int32_t* threads) {
  return guarded([&] { given(threads, "threads") = thread_pool_size(); });
}

sinter_status sinter_set_logger(sinter_logger logger, void* user, sinter_log_level least) {
  return guarded([&] {
    if (least < SINTER_LOG_DEBUG || least > SINTER_LOG_WARNING)
      throw usage_error("there is no log level {}", least);
    if (!logger) return set_logger({});
    set_logger(
        [=](LogLevel level, std::string_view message) {
          logger(user, static_cast<sinter_log_level>(level), std::string(message).c_str());
        },
        static_cast<LogLevel>(least));
  });
}

}  // extern "C"
