// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/paged_executor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>

#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/plan_data.h"
#include "runtime/session_access.h"

namespace sinter::engine {
namespace {

constexpr std::uint64_t kHostCache = std::uint64_t{1} << 30;
// Share of GPU memory for weights and caches; activations, libraries and other processes use the
// rest.
constexpr double kDeviceShare = 0.88;
constexpr int kMostDrafts = 16;
// States kept beside those of sequences, unless bytes are asked for.
constexpr std::int64_t kHostStates = std::int64_t{1} << 28, kKeptOfEach = 16;
/// Sizes up to `most`: powers of two, and from 16 on also one size between each two.
std::vector<int> ladder(int most) {
  std::vector<int> sizes;
  for (int size = 1; size < most; size *= 2) {
    sizes.push_back(size);
    if (size >= 16 && size + size / 2 < most) sizes.push_back(size + size / 2);
  }
  sizes.push_back(most);
  return sizes;
}

int next_of(const std::vector<int>& sizes, int size) {
  return *std::ranges::lower_bound(sizes, std::min(size, sizes.back()));
}

const plan::fb::PlanT& meta_of(const Plan& plan) { return PlanAccess::data(plan)->meta; }

bool is_length(const BindingInfo& cache, std::size_t dim) { return dim + 2 == cache.shape.size(); }

SessionOptions with_graphs(SessionOptions options) {
  constexpr std::size_t kGraphs = 256;
  options.graph_cache = std::max(options.graph_cache, kGraphs);
  options.output_memory = Memory::kHost;
  return options;
}

}  // namespace

bool PagedExecutor::takes(const Plan& plan) { return plan::is_serving(meta_of(plan)); }

plan::ServingPlan PagedExecutor::sizes_of(const Plan& plan) {
  if (!takes(plan))
    throw usage_error(
        "the plan has its model's own inputs, for sessions that a program drives: text is made of "
        "what `compile` makes of a decoder without --serve=off, --entry, --state, --packed, shapes "
        "and a fixed cache length (--serve says why a model cannot be)");
  return plan::serving_of(meta_of(plan));
}

PagedExecutor::PagedExecutor(const Plan& plan, const PagedExecutorOptions& options)
    : plan_(sizes_of(plan)),
      session_(plan, with_graphs(options.session)),
      on_device_(plan.target() != "cpu"),
      device_(options.session.device) {
  read_limits(options);
  place_rows();
  limits_.steps_in_flight = 2;
  samplers_.resize(static_cast<std::size_t>(limits_.max_sequences));
  make_crossed();
  make_caches(options);
  make_tables();
  warm_up(options.ahead);
}

void PagedExecutor::read_limits(const PagedExecutorOptions& options) {
  const auto limit = [](int own, int asked, const char* what) {
    if (asked < 0 || asked > own)
      throw usage_error("the plan takes up to {} {} in a step, not {}", own, what, asked);
    return asked == 0 ? own : asked;
  };
  limits_.vocabulary = plan_.vocabulary;
  limits_.block_size = plan_.block_size;
  limits_.max_positions = plan_.sequence_positions;
  if (options.max_positions > 0)
    limits_.max_positions = std::min(limits_.max_positions, options.max_positions);
  limits_.max_sequences = limit(plan_.sequences, options.max_sequences, "sequences");
  limits_.max_step_tokens =
      limit(std::min(plan_.tokens, plan_.samples), options.max_step_tokens, "tokens");
  // The engine's token budget must exceed the number of sequences.
  limits_.max_sequences = std::min(limits_.max_sequences, std::max(1, limits_.max_step_tokens - 1));
  limits_.max_drafts = std::min(kMostDrafts, limits_.max_step_tokens - 1);
  limits_.token_sizes = ladder(limits_.max_step_tokens);
  for (const int size : options.ahead)
    if (const auto at = std::ranges::lower_bound(limits_.token_sizes, size);
        at != limits_.token_sizes.end() && *at != size)
      limits_.token_sizes.insert(at, size);
  limits_.sequence_sizes = ladder(limits_.max_sequences);
  // Keys depend on the text's length, so equal tokens may have different keys.
  limits_.shares_blocks = !plan_.lengths && !plan_.given;
  if (plan_.given) {
    limits_.given_width = plan_.given->width;
    limits_.given_type = plan_.given->type;
  }
  if (plan_.rotary) limits_.rotary_axes = plan_.rotary->axes;
}

void PagedExecutor::place_rows() {
  const auto device = on_device_ ? std::optional(device_) : std::nullopt;
  logits_type_ = session_.plan().outputs()[plan_.logits].dtype;
  logits_.emplace(session_, plan_.logits, logits_type_, limits_.vocabulary, device);
  if (!plan_.logprobs) {
    runtime::log(LogLevel::kWarning, [] {
      return "the plan tells no log probabilities of tokens: requests for them are drawn on the "
             "host, from logits that are copied there; compile the model again with --serve";
    });
    return;
  }
  const plan::ServingPlan::Logprobs& told = *plan_.logprobs;
  likeliest_.emplace(session_, told.likeliest, DType::kInt32, told.most, device);
  logprobs_.emplace(session_, told.told, DType::kFloat32, told.most + 1, device);
}

void PagedExecutor::make_crossed() {
  if (!plan_.crossed) return;
  crossed_.emplace(session_, plan_, limits_.max_sequences,
                   on_device_ ? std::optional(device_) : std::nullopt);
  limits_.crossed = crossed_->limits();
  // Keys and values depend on the encoder's output, so equal tokens may have different ones.
  limits_.shares_blocks = false;
}

void PagedExecutor::make_caches(const PagedExecutorOptions& options) {
  for (const std::size_t input : plan_.caches) {
    const BindingInfo& cache = session_.plan().inputs()[input];
    std::vector<std::int64_t> shape;
    for (std::size_t d = 0; d < cache.shape.size(); ++d)
      shape.push_back(is_length(cache, d) ? 0 : cache.shape[d].max);
    caches_.emplace(cache.name, std::move(shape));
  }
  const auto size = static_cast<std::uint64_t>(limits_.block_size);
  std::uint64_t left = 0;  // on a GPU
  if (on_device_) {
    const GpuList list = list_gpus();
    const auto device = static_cast<std::size_t>(options.session.device);
    const std::uint64_t all = device < list.gpus.size() ? list.gpus[device].memory_bytes : 0;
    const auto share = static_cast<std::uint64_t>(static_cast<double>(all) * kDeviceShare);
    std::uint64_t weights = session_.memory().weights + (crossed_ ? crossed_->bytes() : 0);
    if (options.beside != nullptr) weights += PlanAccess::data(*options.beside)->weights.size();
    left = share > weights ? share - weights : 0;
  }
  const std::uint64_t state_bytes = make_states(options, left);
  const std::uint64_t own_block = plan_.position_bytes * size;
  const std::uint64_t block =
      own_block + (options.beside != nullptr
                       ? plan::serving_of(meta_of(*options.beside)).position_bytes * size
                       : 0);
  std::uint64_t bytes = options.cache_bytes;
  if (bytes == 0 && left > state_bytes) bytes = left - state_bytes;
  const std::int64_t blocks_of_all =
      (std::int64_t{limits_.max_positions} + limits_.block_size - 1) / limits_.block_size *
      limits_.max_sequences;
  if (bytes == 0)
    bytes = std::min(kHostCache, static_cast<std::uint64_t>(blocks_of_all + 1) * block);
  // Padding rows are written to one extra block. Cache rows have 32-bit indices. Models without
  // caches have blocks all the same, of no bytes.
  const std::int64_t wanted =
      options.block_count > 0 ? options.block_count
      : block == 0            ? blocks_of_all + 1
                   : std::min(static_cast<std::int64_t>(bytes / block) - 1, blocks_of_all);
  const std::int64_t most = std::min<std::int64_t>(
      plan_.caches.empty() ? std::numeric_limits<std::int64_t>::max() : plan_.cache_positions,
      std::numeric_limits<std::int32_t>::max());
  const std::int64_t count = std::min(wanted, most / limits_.block_size - 1);
  if (count < 2)
    throw usage_error(
        "caches of {} bytes have room for {} blocks of {} positions ({} bytes each), "
        "not for two and one of padding: give more with --cache-memory",
        bytes, std::max<std::int64_t>(count, 0), limits_.block_size, block);
  limits_.block_count = static_cast<int>(count);
  cache_bytes_ = static_cast<std::uint64_t>(count + 1) * own_block + state_bytes;
  for (auto& [name, shape] : caches_) shape[shape.size() - 2] = (count + 1) * limits_.block_size;
  auto all = caches_;
  all.insert(pools_.begin(), pools_.end());
  session_.reset_state(all);
}

std::uint64_t PagedExecutor::make_states(const PagedExecutorOptions& options, std::uint64_t bytes) {
  if (!plan_.states) return 0;
  const plan::ServingPlan::States& states = *plan_.states;
  const std::int64_t own = limits_.max_sequences;
  const auto size = static_cast<std::int64_t>(states.bytes);
  std::int64_t kept = 0;
  if (options.state_bytes > 0) {
    kept = static_cast<std::int64_t>(options.state_bytes / states.bytes);
  } else {
    const std::int64_t left = static_cast<std::int64_t>(bytes) - own * size;
    if (on_device_ && left < 0)
      throw usage_error(
          "states of {} sequences take {} bytes each, and the GPU has {} left: give fewer "
          "sequences",
          own, size, bytes);
    kept = std::min((on_device_ ? left / 4 : kHostStates) / size, own * kKeptOfEach);
  }
  limits_.state_slots = static_cast<int>(std::min(own + kept, states.most));
  if (limits_.state_slots < own)
    throw usage_error("the plan has up to {} slots of states, fewer than the {} sequences",
                      states.most, own);
  for (const std::size_t input : states.pools) {
    const BindingInfo& pool = session_.plan().inputs()[input];
    std::vector<std::int64_t> shape;
    for (const DimInfo& dim : pool.shape) shape.push_back(dim.max);
    shape[0] = limits_.state_slots;
    pools_.emplace(pool.name, std::move(shape));
  }
  return static_cast<std::uint64_t>(limits_.state_slots) * states.bytes;
}

StepSizes PagedExecutor::padded(int tokens, int sequences, int samples, int stores) const {
  // Small steps use one size for all. Sequences and samples rarely exceed tokens (only when
  // several samples share a first token). Steps with drafts are small too.
  const int most = std::max({tokens, sequences, samples});
  if (most <= limits_.max_sequences) {
    const int size = next_of(limits_.sequence_sizes, most);
    return {size, size, size, size};
  }
  const auto of_rows = [&](int rows) {
    return rows <= limits_.max_sequences ? limits_.max_sequences
                                         : next_of(limits_.token_sizes, rows);
  };
  // Padded sequences are cheap beside a prompt, and fewer combinations need capture.
  return {next_of(limits_.token_sizes, tokens), limits_.max_sequences, of_rows(samples),
          of_rows(stores)};
}

std::map<std::string, std::vector<std::int64_t>> PagedExecutor::shapes(
    const StepSizes& sizes) const {
  auto all = caches_;
  const auto add = [&](std::size_t input, std::vector<std::int64_t> shape) {
    all.emplace(session_.plan().inputs()[input].name, std::move(shape));
  };
  for (const std::size_t input : {plan_.ids, plan_.positions, plan_.slots})
    add(input, {sizes.tokens});
  if (plan_.lengths) add(*plan_.lengths, {sizes.tokens});
  if (plan_.given) {
    add(plan_.given->vectors, {1, plan_.given->width});
    add(plan_.given->rows, {sizes.tokens});
  }
  if (plan_.rotary) add(plan_.rotary->positions, {limits_.rotary_axes, sizes.tokens});
  if (const auto& states = plan_.states) {
    all.insert(pools_.begin(), pools_.end());
    for (const std::size_t input : {states->offsets, states->sources, states->slots})
      add(input, {sizes.tokens});
    add(states->stores, {sizes.stores});
  }
  add(plan_.starts, {sizes.sequences + 1});
  add(plan_.tables, {sizes.sequences, plan_.table_blocks});
  add(plan_.rows, {sizes.samples});
  add(plan_.reals, {sizes.samples, plan::kSamplingReals});
  add(plan_.integers, {sizes.samples, plan::kSamplingIntegers});
  add(plan_.sets, tables_of_tokens_->sets().shape);
  add(plan_.biased, tables_of_tokens_->biased().shape);
  add(plan_.biases, tables_of_tokens_->biases().shape);
  if (plan_.logprobs) add(plan_.logprobs->wanted, {sizes.samples});
  if (const auto& crossed = plan_.crossed) {
    add(crossed->limits, {sizes.tokens});
    add(crossed->tables, {sizes.sequences, crossed->table_blocks});
    for (const std::size_t input : crossed->given)
      add(input, *SessionAccess::impl(session_)->inputs[input]);
  }
  return all;
}

void PagedExecutor::make_tables() {
  block_tables_.emplace(limits_.max_sequences, plan_.table_blocks);
  std::ranges::fill(block_table_rows(), 0);
  tables_of_tokens_.emplace(limits_.max_sequences, limits_.vocabulary,
                            on_device_ ? std::optional(device_) : std::nullopt);
  session_.use_input(plan_.sets, tables_of_tokens_->sets());
  session_.use_input(plan_.biased, tables_of_tokens_->biased());
  session_.use_input(plan_.biases, tables_of_tokens_->biases());
}

void PagedExecutor::warm_up(const std::vector<int>& ahead) {
  // Largest step first: memory is allocated once and stays in place.
  std::vector<StepSizes> all;
  for (const int tokens : ahead) all.push_back(padded(tokens, 1, 1, 1));
  std::ranges::sort(all, std::greater(), &StepSizes::tokens);
  // Iterators, because clang 14 cannot compile std::views::reverse with this standard library.
  const auto &tokens = limits_.token_sizes, &sequences = limits_.sequence_sizes;
  for (auto size = tokens.rbegin(); ahead.empty() && size != tokens.rend(); ++size)
    if (*size > limits_.max_sequences)
      all.push_back({*size, limits_.max_sequences, limits_.max_sequences, limits_.max_sequences});
  for (auto size = sequences.rbegin(); ahead.empty() && size != sequences.rend(); ++size)
    all.push_back({*size, *size, *size, *size});
  for (const StepSizes& sizes : all) {
    place_outputs(sizes);
    session_.warm_up(shapes(sizes));
  }
}

void PagedExecutor::place_outputs(const StepSizes& sizes) {
  for (auto* output : {&logits_, &likeliest_, &logprobs_})
    if (*output) (*output)->place(sizes.samples);
}

void PagedExecutor::copy_blocks() {
  if (running_.plan.copies.empty()) return;
  const auto& impl = *SessionAccess::impl(session_);
  const auto& states = impl.meta().states;
  for (const BlockCopy& copy : running_.plan.copies)
    for (std::size_t s = 0; s < states.size(); ++s)
      if (caches_.contains(impl.meta().inputs[states[s]->input]->name))
        impl.executor->copy_state_rows(
            s, *impl.inputs[states[s]->input], std::int64_t{copy.from} * limits_.block_size,
            std::int64_t{copy.to} * limits_.block_size, limits_.block_size);
}

void PagedExecutor::copy_states() {
  const auto& impl = *SessionAccess::impl(session_);
  const auto& states = impl.meta().states;
  for (const StateCopy& copy : running_.plan.state_copies)
    for (std::size_t s = 0; s < states.size(); ++s)
      if (pools_.contains(impl.meta().inputs[states[s]->input]->name)) {
        const auto& shape = *impl.inputs[states[s]->input];
        const std::int64_t slot =
            std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies());
        impl.executor->copy_state_rows(s, {shape[0], slot}, copy.from, copy.to, 1);
      }
}

void PagedExecutor::prepare(const StepPlan& plan) {
  next_.plan = plan;
  next_.wanted.clear();
  int rows = 0;
  for (const SamplePlan& sample : plan.samples) {
    Wanted wanted{sample.slot, rows, false, {}};
    const auto first = plan.tokens.begin() + sample.row + 1;
    wanted.drafts.assign(first, first + sample.drafts);
    next_.wanted.push_back(std::move(wanted));
    rows += sample.drafts + 1;
  }
  const auto count = [](const auto& all) { return static_cast<int>(all.size()); };
  const StepSizes sizes =
      padded(count(plan.tokens), count(plan.sequences), rows, count(plan.state_stores));
  next_.inputs.fill(plan, sizes, limits_.block_size, limits_.block_count, *block_tables_);
  if (plan_.given || plan_.rotary)
    next_.inputs.fill_given(plan, given_bytes(), limits_.rotary_axes);
  has_next_ = true;
}

void PagedExecutor::set_inputs() {
  StepInputs& inputs = running_.inputs;
  for (const SequenceStep& sequence : running_.plan.sequences)
    for (int i = 0; i < sequence.tokens; ++i) {
      const int at = sequence.first_token + i;
      std::int32_t& id = inputs.ids[static_cast<std::size_t>(at)];
      if (id == kLastDrawn) id = sampler_of(sequence.slot).last();
    }
  const StepSizes& sizes = inputs.sizes;
  stage(plan_.ids, inputs.ids, {sizes.tokens});
  stage(plan_.positions, inputs.positions, {sizes.tokens});
  stage(plan_.slots, inputs.slots, {sizes.tokens});
  if (plan_.lengths) stage(*plan_.lengths, inputs.lengths, {sizes.tokens});
  if (plan_.given) {
    stage(plan_.given->vectors, inputs.given_vectors,
          {inputs.given(given_bytes()), plan_.given->width});
    stage(plan_.given->rows, inputs.given_rows, {sizes.tokens});
  }
  if (plan_.rotary)
    stage(plan_.rotary->positions, inputs.rotary, {limits_.rotary_axes, sizes.tokens});
  if (const auto& states = plan_.states) {
    stage(states->offsets, inputs.state_offsets, {sizes.tokens});
    stage(states->sources, inputs.state_sources, {sizes.tokens});
    stage(states->slots, inputs.state_slots, {sizes.tokens});
    stage(states->stores, inputs.state_stores, {sizes.stores});
  }
  stage(plan_.starts, inputs.starts, {sizes.sequences + 1});
  stage(plan_.rows, inputs.sample_rows, {sizes.samples});
  set_block_tables();
  if (crossed_) set_crossed();
}

void PagedExecutor::set_crossed() {
  const StepSizes& sizes = running_.inputs.sizes;
  const int columns = plan_.crossed->table_blocks;
  cross_limits_.assign(static_cast<std::size_t>(sizes.tokens), 0);  // padding attends to nothing
  cross_tables_.assign(
      static_cast<std::size_t>(sizes.sequences) * static_cast<std::size_t>(columns), 0);
  std::int32_t* row = cross_tables_.data();
  for (const SequenceStep& sequence : running_.plan.sequences) {
    std::fill_n(cross_limits_.begin() + sequence.first_token, sequence.tokens,
                crossed_->positions(sequence.slot));
    crossed_->fill_row(sequence.slot, row, columns);
    row += columns;
  }
  stage(plan_.crossed->limits, cross_limits_, {sizes.tokens});
  stage(plan_.crossed->tables, cross_tables_, {sizes.sequences, columns});
}

template <typename T>
void PagedExecutor::stage(std::size_t input, const std::vector<T>& values,
                          std::initializer_list<std::int64_t> shape) {
  auto& impl = *SessionAccess::impl(session_);
  const std::size_t bytes = values.size() * sizeof(T);
  std::memcpy(impl.executor->stage_input(input, bytes), values.data(), bytes);
  set_shape(input, shape);
}

void PagedExecutor::set_shape(std::size_t input, std::initializer_list<std::int64_t> shape) {
  auto& impl = *SessionAccess::impl(session_);
  // The shape rarely changes between steps; skipping avoids an allocation.
  if (const auto& held = impl.inputs[input]; !held || !std::ranges::equal(*held, shape))
    impl.set_shape(input, shape);
}
template void PagedExecutor::stage(std::size_t, const std::vector<std::byte>&,
                                   std::initializer_list<std::int64_t>);
template void PagedExecutor::stage(std::size_t, const std::vector<std::int32_t>&,
                                   std::initializer_list<std::int64_t>);
template void PagedExecutor::stage(std::size_t, const std::vector<std::int64_t>&,
                                   std::initializer_list<std::int64_t>);
template void PagedExecutor::stage(std::size_t, const std::vector<double>&,
                                   std::initializer_list<std::int64_t>);

std::span<BlockId> PagedExecutor::block_table_rows() {
  const std::size_t count = block_tables_->size();
  std::byte* const rows =
      SessionAccess::impl(session_)->executor->stage_input(plan_.tables, count * sizeof(BlockId));
  return {reinterpret_cast<BlockId*>(rows), count};
}

void PagedExecutor::set_block_tables() {
  running_.inputs.block_tables.write_to(block_table_rows());
  set_shape(plan_.tables, {running_.inputs.sizes.sequences, plan_.table_blocks});
}

void PagedExecutor::start(const StepPlan& plan) {
  prepare(plan);
  if (!runs_ && !launch_failure_) launch();
}

PagedExecutor::Clock::time_point PagedExecutor::launch() {
  std::swap(next_, running_);
  has_next_ = false;
  for (const SlotStart& slot : running_.plan.starts) begin_slot(slot);
  copy_blocks();
  copy_states();
  place_outputs(running_.inputs.sizes);
  set_inputs();
  prepare_samplers();
  fill_sampling();
  // Start time for idle_seconds: a GPU starts after submission, the CPU at once.
  const auto begins = Clock::now();
  session_.run_async();
  runs_ = true;
  return on_device_ ? Clock::now() : begins;
}

StepResult PagedExecutor::finish() {
  if (launch_failure_) std::rethrow_exception(launch_failure_);
  session_.await();
  const auto ended = Clock::now();
  runs_ = false;
  StepResult result = draw();
  if (!has_next_) return result;
  try {
    result.idle_seconds = std::chrono::duration<double>(launch() - ended).count();
  } catch (...) {
    launch_failure_ = std::current_exception();  // the finished step still returns its result
  }
  return result;
}

void PagedExecutor::recover() {
  launch_failure_ = nullptr;
  has_next_ = runs_ = false;
  try {
    session_.await();
  } catch (const Error&) {
    // Already reported to the step's requests.
  }
  if (on_device_) check_device(device_);
  // Steps that did not run leave the table rows unknown, so they restart from zero.
  block_tables_.emplace(limits_.max_sequences, plan_.table_blocks);
  std::ranges::fill(block_table_rows(), 0);
}

void check_device(int device) {
  with_context("the device does not answer behind a failure: start the process anew", [&] {
    std::int32_t sent = 0x5EED, came = 0;
    DeviceBuffer buffer(device, sizeof sent);
    buffer.copy_from_host(&sent, sizeof sent, 0);
    buffer.copy_to_host(&came, sizeof came, 0);
    if (came != sent) throw Error(ErrorCode::kDevice, "its memory has other bytes than were sent");
  });
}

}  // namespace sinter::engine
