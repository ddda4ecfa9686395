#include "runtime/engine/executors/paged_executor.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>

#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/plan_data.h"
#include "runtime/session_access.h"

namespace sinter::engine {
namespace {

// As fusion::paged_names has them.
constexpr const char *kSampledTokens = "sampled_tokens", *kLogprobsWanted = "logprobs_wanted",
                     *kLikeliestTokens = "likeliest_tokens", *kTokenLogprobs = "token_logprobs";
constexpr std::array kInputs = {"input_ids",       "positions",         "slot_mapping",
                                "sequence_starts", "block_tables",      "sample_rows",
                                "sampling_reals",  "sampling_integers", "token_sets",
                                "biased_tokens",   "token_biases"};
constexpr std::uint64_t kHostCache = std::uint64_t{1} << 30;
// Of a GPU's memory, beside weights and caches: activations, libraries, other processes.
constexpr double kDeviceShare = 0.88;
constexpr int kMostDrafts = 16;
/// Sizes up to `most`: powers of two, and from 16 on one between two of them.
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

const BindingInfo* find(const std::vector<BindingInfo>& bindings, std::string_view name) {
  const auto at = std::ranges::find(bindings, name, &BindingInfo::name);
  return at == bindings.end() ? nullptr : &*at;
}

/// Of the option "serve" of the plan's manifest.
int block_size_of(const Plan& plan) {
  constexpr std::string_view kKey = "serve", kBlock = "block=";
  const auto& manifest = PlanAccess::data(plan)->meta.manifest;
  int size = 0;
  if (manifest)
    for (const auto& option : manifest->options)
      if (option->key == kKey)
        if (const auto at = option->value.find(kBlock); at != std::string::npos)
          std::from_chars(option->value.data() + at + kBlock.size(),
                          option->value.data() + option->value.size(), size);
  if (size < 1)
    throw invalid_plan_error(
        "the plan does not say how long blocks of its caches are: compile the "
        "model again with --serve");
  return size;
}

int most_of(const DimInfo& dim) {
  return static_cast<int>(std::min<std::int64_t>(dim.max, std::numeric_limits<int>::max()));
}

bool is_length(const BindingInfo& cache, std::size_t dim) { return dim + 2 == cache.shape.size(); }

/// Of all caches.
std::uint64_t bytes_of_position(const Plan& plan) {
  std::uint64_t all = 0;
  for (const BindingInfo& input : plan.inputs()) {
    if (!input.state) continue;
    std::uint64_t bytes = size_of(input.dtype);
    for (std::size_t d = 0; d < input.shape.size(); ++d)
      if (!is_length(input, d)) bytes *= static_cast<std::uint64_t>(input.shape[d].max);
    all += bytes;
  }
  return all;
}

SessionOptions with_graphs(SessionOptions options) {
  constexpr std::size_t kGraphs = 256;
  options.graph_cache = std::max(options.graph_cache, kGraphs);
  options.output_memory = Memory::kHost;
  return options;
}

}  // namespace

bool PagedExecutor::takes(const Plan& plan) {
  return find(plan.inputs(), "block_tables") != nullptr &&
         find(plan.inputs(), "slot_mapping") != nullptr;
}

PagedExecutor::PagedExecutor(const Plan& plan, const PagedExecutorOptions& options)
    : session_(plan, with_graphs(options.session)),
      on_device_(plan.target() != "cpu"),
      device_(options.session.device) {
  if (!takes(plan))
    throw usage_error("the plan is of one sequence at a time: compile the model with --serve");
  read_limits(plan, options);
  limits_.steps_in_flight = 2;
  samplers_.resize(static_cast<std::size_t>(limits_.max_sequences));
  make_caches(options);
  make_tables();
  warm_up();
}

void PagedExecutor::read_limits(const Plan& plan, const PagedExecutorOptions& options) {
  for (const char* name : kInputs)
    if (find(plan.inputs(), name) == nullptr)
      throw invalid_plan_error(
          "the plan has no input '{}', which plans of many sequences have now: compile the model "
          "again with --serve",
          name);
  const std::array numbers = {&ids_,   &positions_, &slots_, &starts_, &tables_, &rows_,
                              &reals_, &integers_,  &sets_,  &biased_, &biases_};
  for (std::size_t i = 0; i < kInputs.size(); ++i) *numbers[i] = plan.input_index(kInputs[i]);
  find_outputs(plan);
  limits_.block_size = block_size_of(plan);
  const auto limit = [](int own, int asked, const char* what) {
    if (asked < 0 || asked > own)
      throw usage_error("the plan takes up to {} {} in a step, not {}", own, what, asked);
    return asked == 0 ? own : asked;
  };
  const auto& tables = plan.inputs()[tables_].shape;
  limits_.max_sequences = limit(most_of(tables[0]), options.max_sequences, "sequences");
  limits_.max_step_tokens =
      limit(most_of(plan.inputs()[ids_].shape[0]), options.max_step_tokens, "tokens");
  // The engine wants room for more than a token of each sequence.
  limits_.max_sequences = std::min(limits_.max_sequences, std::max(1, limits_.max_step_tokens - 1));
  table_blocks_ = most_of(tables[1]);
  limits_.max_positions = table_blocks_ * limits_.block_size;
  limits_.max_drafts = std::min(kMostDrafts, limits_.max_step_tokens - 1);
  limits_.token_sizes = ladder(limits_.max_step_tokens);
  limits_.sequence_sizes = ladder(limits_.max_sequences);
}

void PagedExecutor::find_outputs(const Plan& plan) {
  drawn_ = plan.output_index(kSampledTokens);
  const auto logits = std::ranges::find_if(plan.outputs(), [](const BindingInfo& output) {
    return !output.state && is_float(output.dtype) && output.shape.size() == 2;
  });
  if (logits == plan.outputs().end())
    throw invalid_plan_error("the plan has no logits [samples, vocabulary]");
  logits_type_ = logits->dtype;
  limits_.vocabulary = most_of(logits->shape[1]);
  const auto device = on_device_ ? std::optional(device_) : std::nullopt;
  logits_.emplace(session_, static_cast<std::size_t>(logits - plan.outputs().begin()), logits_type_,
                  limits_.vocabulary, device);
  const BindingInfo* const likeliest = find(plan.outputs(), kLikeliestTokens);
  if (likeliest == nullptr || find(plan.inputs(), kLogprobsWanted) == nullptr) {
    runtime::log(LogLevel::kWarning, [] {
      return "the plan tells no log probabilities of tokens: requests for them are drawn on the "
             "host, from logits that are copied there; compile the model again with --serve";
    });
    return;
  }
  wanted_ = plan.input_index(kLogprobsWanted);
  most_likeliest_ = most_of(likeliest->shape[1]);
  likeliest_.emplace(session_, plan.output_index(kLikeliestTokens), DType::kInt32, most_likeliest_,
                     device);
  logprobs_.emplace(session_, plan.output_index(kTokenLogprobs), DType::kFloat32,
                    most_likeliest_ + 1, device);
}

void PagedExecutor::make_caches(const PagedExecutorOptions& options) {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const BindingInfo& input : session_.plan().inputs()) {
    if (!input.state) continue;
    std::vector<std::int64_t> shape;
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      if (is_length(input, d)) most = std::min(most, input.shape[d].max);
      shape.push_back(is_length(input, d) ? 0 : input.shape[d].max);
    }
    caches_.emplace(input.name, std::move(shape));
  }
  if (caches_.empty()) throw invalid_plan_error("the plan has no caches");
  const auto size = static_cast<std::uint64_t>(limits_.block_size);
  const std::uint64_t own_block = bytes_of_position(session_.plan()) * size;
  const std::uint64_t block =
      own_block + (options.beside != nullptr ? bytes_of_position(*options.beside) * size : 0);
  if (own_block == 0) throw invalid_plan_error("the plan's caches have no elements");
  std::uint64_t bytes = options.cache_bytes;
  if (bytes == 0 && on_device_) {
    const GpuList list = list_gpus();
    const auto device = static_cast<std::size_t>(options.session.device);
    const std::uint64_t all = device < list.gpus.size() ? list.gpus[device].memory_bytes : 0;
    const auto share = static_cast<std::uint64_t>(static_cast<double>(all) * kDeviceShare);
    std::uint64_t weights = session_.memory().weights;
    if (options.beside != nullptr) weights += PlanAccess::data(*options.beside)->weights.size();
    bytes = share > weights ? share - weights : 0;
  }
  const std::int64_t blocks_of_all = std::int64_t{table_blocks_} * limits_.max_sequences;
  if (bytes == 0)
    bytes = std::min(kHostCache, static_cast<std::uint64_t>(blocks_of_all + 1) * block);
  // One block more is where rows of padding are written.
  const std::int64_t wanted =
      options.block_count > 0
          ? options.block_count
          : std::min(static_cast<std::int64_t>(bytes / block) - 1, blocks_of_all);
  const std::int64_t count = std::min(wanted, most / limits_.block_size - 1);
  if (count < 2)
    throw usage_error(
        "caches of {} bytes have room for {} blocks of {} positions ({} bytes each), "
        "not for two and one of padding: give more with --cache-memory",
        bytes, std::max<std::int64_t>(count, 0), limits_.block_size, block);
  limits_.block_count = static_cast<int>(count);
  cache_bytes_ = static_cast<std::uint64_t>(count + 1) * own_block;
  for (auto& [name, shape] : caches_) shape[shape.size() - 2] = (count + 1) * limits_.block_size;
  session_.reset_state(caches_);
}

StepSizes PagedExecutor::padded(int tokens, int sequences, int samples) const {
  // There are seldom more sequences and samples than tokens (several samples of a request may begin
  // with one): what is small in tokens is small in all. Drafts are such steps, too.
  const int most = std::max({tokens, sequences, samples});
  if (most <= limits_.max_sequences) {
    const int size = next_of(limits_.sequence_sizes, most);
    return {size, size, size};
  }
  // Sequences that there are not cost next to nothing beside a prompt, and fewer sizes are
  // captured.
  return {next_of(limits_.token_sizes, tokens), limits_.max_sequences,
          samples <= limits_.max_sequences ? limits_.max_sequences
                                           : next_of(limits_.token_sizes, samples)};
}

std::map<std::string, std::vector<std::int64_t>> PagedExecutor::shapes(
    const StepSizes& sizes) const {
  auto all = caches_;
  const std::array<std::vector<std::int64_t>, kInputs.size()> own = {
      {{sizes.tokens},
       {sizes.tokens},
       {sizes.tokens},
       {sizes.sequences + 1},
       {sizes.sequences, table_blocks_},
       {sizes.samples},
       {sizes.samples, SamplingTables::kReals},
       {sizes.samples, SamplingTables::kIntegers},
       tables_of_tokens_->sets().shape,
       tables_of_tokens_->biased().shape,
       tables_of_tokens_->biases().shape}};
  for (std::size_t i = 0; i < kInputs.size(); ++i) all.emplace(kInputs[i], own[i]);
  if (wanted_) all.emplace(kLogprobsWanted, std::vector<std::int64_t>{sizes.samples});
  return all;
}

void PagedExecutor::make_tables() {
  block_tables_.emplace(limits_.max_sequences, table_blocks_);
  std::ranges::fill(block_table_rows(), 0);
  tables_of_tokens_.emplace(limits_.max_sequences, limits_.vocabulary,
                            on_device_ ? std::optional(device_) : std::nullopt);
  session_.use_input(sets_, tables_of_tokens_->sets());
  session_.use_input(biased_, tables_of_tokens_->biased());
  session_.use_input(biases_, tables_of_tokens_->biases());
}

void PagedExecutor::warm_up() {
  // Memory is made for the largest step first, so that it stays where it is.
  std::vector<StepSizes> all;
  for (auto size = limits_.token_sizes.rbegin(); size != limits_.token_sizes.rend(); ++size)
    if (*size > limits_.max_sequences)
      all.push_back({*size, limits_.max_sequences, limits_.max_sequences});
  for (auto size = limits_.sequence_sizes.rbegin(); size != limits_.sequence_sizes.rend(); ++size)
    all.push_back({*size, *size, *size});
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
      impl.executor->copy_state_rows(s, caches_.at(impl.meta().inputs[states[s]->input]->name),
                                     std::int64_t{copy.from} * limits_.block_size,
                                     std::int64_t{copy.to} * limits_.block_size,
                                     limits_.block_size);
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
  const StepSizes sizes =
      padded(static_cast<int>(plan.tokens.size()), static_cast<int>(plan.sequences.size()), rows);
  next_.inputs.fill(plan, sizes, limits_.block_size, limits_.block_count, *block_tables_);
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
  const auto set = [&](std::size_t input, const std::vector<std::int32_t>& values,
                       std::vector<std::int64_t> shape) {
    session_.set_input(input, std::move(shape), std::as_bytes(std::span(values)), DType::kInt32);
  };
  const StepSizes& sizes = inputs.sizes;
  set(ids_, inputs.ids, {sizes.tokens});
  set(positions_, inputs.positions, {sizes.tokens});
  set(slots_, inputs.slots, {sizes.tokens});
  set(starts_, inputs.starts, {sizes.sequences + 1});
  set(rows_, inputs.sample_rows, {sizes.samples});
  set_block_tables();
}

std::span<BlockId> PagedExecutor::block_table_rows() {
  const std::size_t count = block_tables_->size();
  std::byte* const rows =
      SessionAccess::impl(session_)->executor->stage_input(tables_, count * sizeof(BlockId));
  return {reinterpret_cast<BlockId*>(rows), count};
}

void PagedExecutor::set_block_tables() {
  running_.inputs.block_tables.write_to(block_table_rows());
  SessionAccess::impl(session_)->set_shape(tables_,
                                           {running_.inputs.sizes.sequences, table_blocks_});
}

void PagedExecutor::start(const StepPlan& plan) {
  prepare(plan);
  if (!runs_) launch();
}

PagedExecutor::Clock::time_point PagedExecutor::launch() {
  std::swap(next_, running_);
  has_next_ = false;
  for (const SlotStart& slot : running_.plan.starts) begin_slot(slot);
  copy_blocks();
  place_outputs(running_.inputs.sizes);
  set_inputs();
  prepare_samplers();
  fill_sampling();
  // A GPU begins when it has been told all, the CPU at once.
  const auto begins = Clock::now();
  session_.run_async();
  runs_ = true;
  return on_device_ ? Clock::now() : begins;
}

StepResult PagedExecutor::finish() {
  session_.await();
  const auto ended = Clock::now();
  runs_ = false;
  StepResult result = draw();
  if (has_next_) result.idle_seconds = std::chrono::duration<double>(launch() - ended).count();
  return result;
}

}  // namespace sinter::engine
