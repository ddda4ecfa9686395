// SPDX-License-Identifier: Apache-2.0
// pysinter._core.TableSession: a session that takes record batches and gives record batches. Its
// steps are called by the threads of a pipeline, one after the other.
#include <atomic>
#include <optional>

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "runtime/format_error.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/tables.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

using InputTuple = std::tuple<std::string, std::vector<std::string>, std::string>;

class TableSession {
 public:
  explicit TableSession(nb::object plan) : plan_object_(std::move(plan)) {
    const auto& object = nb::cast<const PlanObject&>(plan_object_);
    object.check_process();
    process_ = process_generation();
    GilReleased release;
    session_.emplace(object.plan(), session_options(object.options(), false));
  }
  ~TableSession() {
    // Leaks a session that belongs to the parent process.
    if (session_ && process_ != process_generation()) new Session(std::move(*session_));
    GilReleased release;
    session_.reset();
  }

  void bind(const BatchObject& batch, std::int64_t first_row, std::int64_t rows,
            const std::vector<InputTuple>& inputs, bool nan, bool cast, int threads) {
    check_process();
    BatchOptions options;
    for (const auto& [input, columns, mask] : inputs)
      options.inputs.push_back({input, columns, mask});
    options.nulls = nan ? Nulls::kNaN : Nulls::kRefused;
    options.cast = cast;
    options.all_inputs = true;  // inputs of an earlier table must not be reused
    options.first_row = first_row;
    options.rows = rows;
    options.threads = threads;
    std::shared_ptr<const HeldBatch> held = batch.held;
    GilReleased release;
    const BoundBatch bound =
        bind_record_batch(*session_, held->schema->schema, held->array, options);
    if (!bound.in_place.empty()) batch_ = std::move(held);
  }

  void start() {
    check_process();
    GilReleased release;
    session_->run_async();
  }

  BatchObject finish() {
    auto schema = std::make_shared<HeldSchema>();
    auto held = std::make_shared<HeldBatch>();
    {
      GilReleased release;
      session_->await();
      export_outputs(*session_, &schema->schema, &held->array);
      batch_.reset();
    }
    held->schema = schema;
    return {held};
  }

  /// The outputs as NumPy arrays, by name.
  nb::dict finish_arrays() {
    {
      GilReleased release;
      session_->await();
      batch_.reset();
    }
    nb::dict arrays;
    const auto& outputs = session_->plan().outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i].state)
        arrays[text(outputs[i].name)] = Caller::copy_output(Library::kNumpy, session_->output(i));
    return arrays;
  }

 private:
  void check_process() const {
    if (process_ != process_generation())
      throw usage_error("this session was made before fork(): make one in the child");
  }

  nb::object plan_object_;
  std::optional<Session> session_;
  std::shared_ptr<const HeldBatch> batch_;  // read in place by the session
  unsigned process_ = 0;
};

}  // namespace

void bind_table_session(nb::module_& module) {
  nb::class_<TableSession>(module, "TableSession")
      .def(nb::init<nb::object>(), nb::arg("plan"))
      .def("bind", &TableSession::bind, nb::arg("batch"), nb::arg("first_row"), nb::arg("rows"),
           nb::arg("inputs"), nb::arg("nan"), nb::arg("cast"), nb::arg("threads") = 0)
      .def("start", &TableSession::start)
      .def("finish", &TableSession::finish)
      .def("finish_arrays", &TableSession::finish_arrays);
}

}  // namespace sinter::python
