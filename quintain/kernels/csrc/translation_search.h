// Beam search over sentences that come and go between steps.
//
// Each sentence is at a step of its own. In a step the candidates of all sentences go through the
// layers together; none of them sees another sentence, and no sum depends on how many there are, so
// that a sentence is translated to the same ids and scores whatever others are beside it.
#ifndef QUINTAIN_KERNELS_TRANSLATION_SEARCH_H_
#define QUINTAIN_KERNELS_TRANSLATION_SEARCH_H_

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "translation.h"

namespace quintain {
namespace translation {

struct Options {
  int64_t beam_size, num_outputs, min_length, no_repeat_ngram_size, num_ends;
  float alpha;
};

struct Candidate {
  std::vector<int32_t> ids;
  std::vector<int32_t> places;  // Where its keys and values of each step are.
  float score = kMinusInfinity;  // Its log-probability; length-normalised once it ended.
};

struct Sentence {
  int64_t key, max_length;
  std::vector<int32_t> source, prefix;
  std::vector<std::vector<float>> memories;  // Of each layer: [source, 2 * width].
  std::vector<std::vector<float>> pasts;     // Of each layer: [step, candidate, 2 * width].
  std::vector<Candidate> alive, finished;    // The best first.

  int64_t index() const { return static_cast<int64_t>(alive[0].ids.size()); }
};

class Search {
 public:
  Search(const Model& model, const Options& options, const int32_t* ends)
      : model_(model), options_(options), ends_(ends, ends + options.num_ends), rows_(model) {}

  void add(int64_t key, const int32_t* ids, int64_t count, int64_t max_length,
           const int32_t* prefix, int64_t prefix_count) {
    Sentence sentence;
    sentence.key = key;
    sentence.max_length = max_length;
    sentence.source.assign(ids, ids + count);
    sentence.prefix.assign(prefix, prefix + prefix_count);
    sentence.alive.resize(1);
    sentence.alive[0].score = 0.0f;
    new_.push_back(std::move(sentence));
  }

  // Does at most so many steps; fewer if a sentence is done or none is left.
  void run(int64_t num_steps) {
    encode();
    for (int64_t i = 0; i < num_steps && done_.empty() && !live_.empty(); ++i) step();
  }

  std::deque<Sentence>& done() { return done_; }

 private:
  void encode() {
    if (new_.empty()) return;
    const Sizes& sizes = model_.sizes;
    const int64_t width = sizes.width;
    int64_t num_tokens = 0;
    for (const Sentence& sentence : new_) num_tokens += sentence.source.size();
    rows_.start(num_tokens);
    int64_t row = 0, longest = 0;
    for (const Sentence& sentence : new_) {
      const int64_t count = sentence.source.size();
      longest = std::max(longest, count);
      for (int64_t i = 0; i < count; ++i, ++row) {
        const int32_t id = sentence.source[i];
        rows_.embed(row, model_.source_table, id, i, id == 0);
      }
    }
    count_up(longest);
    const bool is_first = sizes.encoder_norm_first;
    const float epsilon = model_.encoder_epsilon;
    for (int64_t layer = 0; layer < sizes.encoder_layers; ++layer) {
      const Norm& norm = model_.encoder_norm(layer, 0);
      rows_.multiply(model_.encoder_matrix(layer, kQueryKeyValue),
                     rows_.enter(norm, epsilon, is_first), Activation::kNone, rows_.queries);
      int64_t start = 0;
      for (const Sentence& sentence : new_) {
        const int64_t count = sentence.source.size();
        const float* first = rows_.queries + start * 3 * width;
        const Past past = {first + width, first + 2 * width, 3 * width, numbers_.data(), count};
        for (int64_t i = 0; i < count; ++i) rows_.attend(start + i, first + i * 3 * width, past);
        start += count;
      }
      rows_.leave(model_.encoder_matrix(layer, kOutput), rows_.mixed, norm, epsilon, is_first);
      rows_.feed_forward(model_.encoder_matrix(layer, kExpand),
                         model_.encoder_matrix(layer, kContract), sizes.encoder_activation,
                         model_.encoder_norm(layer, 1), epsilon, is_first);
    }
    rows_.normalize_last(model_.encoder_norm(sizes.encoder_layers, 0), epsilon);
    for (int64_t layer = 0; layer < sizes.decoder_layers; ++layer) {
      rows_.multiply(model_.decoder_matrix(layer, kSourceKeyValue), rows_.x, Activation::kNone,
                     rows_.queries);
      const float* from = rows_.queries;
      for (Sentence& sentence : new_) {
        const int64_t count = sentence.source.size() * 2 * width;
        sentence.memories.emplace_back(from, from + count);
        from += count;
      }
    }
    for (Sentence& sentence : new_) {
      sentence.pasts.resize(sizes.decoder_layers);
      (sentence.max_length > 0 ? live_ : done_).push_back(std::move(sentence));
    }
    new_.clear();
  }

  // Extends all candidates by one id.
  void step() {
    const Sizes& sizes = model_.sizes;
    int64_t num_rows = 0;
    for (const Sentence& sentence : live_) num_rows += sentence.alive.size();
    rows_.start(num_rows);
    int64_t row = 0;
    for (Sentence& sentence : live_) {
      const int64_t index = sentence.index();
      for (size_t j = 0; j < sentence.alive.size(); ++j, ++row) {
        Candidate& candidate = sentence.alive[j];
        const int32_t last = index > 0 ? candidate.ids.back() : 0;
        const bool is_zero = last == 0 && !sizes.embed_start;
        rows_.embed(row, model_.target_table, last, index, is_zero);
        candidate.places.push_back(static_cast<int32_t>(index * options_.beam_size + j));
      }
    }
    const float epsilon = model_.decoder_epsilon;
    for (int64_t layer = 0; layer < sizes.decoder_layers; ++layer) run_layer(layer);
    rows_.normalize_last(model_.decoder_norm(sizes.decoder_layers, 0), epsilon);
    const int64_t num_ids = sizes.target_ids;
    float* logits = logits_.floats(num_rows * num_ids);
    rows_.multiply(model_.logits(), rows_.x, Activation::kNone, logits);
    std::deque<Sentence> left;
    for (Sentence& sentence : live_) {
      const int64_t count = sentence.alive.size();
      extend(sentence, logits);
      logits += count * num_ids;
      (is_settled(sentence) ? done_ : left).push_back(std::move(sentence));
    }
    live_.swap(left);
  }

  void run_layer(int64_t layer) {
    const Sizes& sizes = model_.sizes;
    const int64_t width = sizes.width;
    const bool is_first = sizes.decoder_norm_first;
    const float epsilon = model_.decoder_epsilon;
    const Norm& own_norm = model_.decoder_norm(layer, 0);
    rows_.multiply(model_.decoder_matrix(layer, kOwnQueryKeyValue),
                   rows_.enter(own_norm, epsilon, is_first), Activation::kNone, rows_.queries);
    int64_t row = 0;
    for (Sentence& sentence : live_) {
      std::vector<float>& pool = sentence.pasts[layer];
      const int64_t index = sentence.index(), pool_step = options_.beam_size * 2 * width;
      if (static_cast<int64_t>(pool.size()) < (index + 1) * pool_step) {
        pool.resize(round_up(index + 1, 8) * pool_step);
      }
      for (const Candidate& candidate : sentence.alive) {
        const float* queries = rows_.queries + row * 3 * width;
        std::memcpy(pool.data() + candidate.places.back() * 2 * width, queries + width,
                    2 * width * 4);
        const Past past = {pool.data(), pool.data() + width, 2 * width, candidate.places.data(),
                           index + 1};
        rows_.attend(row++, queries, past);
      }
    }
    rows_.leave(model_.decoder_matrix(layer, kOwnOutput), rows_.mixed, own_norm, epsilon, is_first);

    const Norm& source_norm = model_.decoder_norm(layer, 1);
    rows_.multiply(model_.decoder_matrix(layer, kSourceQuery),
                   rows_.enter(source_norm, epsilon, is_first), Activation::kNone, rows_.queries);
    row = 0;
    for (const Sentence& sentence : live_) {
      const float* memory = sentence.memories[layer].data();
      const int64_t count = sentence.source.size();
      const Past past = {memory, memory + width, 2 * width, numbers_.data(), count};
      for (size_t j = 0; j < sentence.alive.size(); ++j, ++row) {
        rows_.attend(row, rows_.queries + row * width, past);
      }
    }
    rows_.leave(model_.decoder_matrix(layer, kSourceOutput), rows_.mixed, source_norm, epsilon,
                is_first);
    rows_.feed_forward(model_.decoder_matrix(layer, kInnerExpand),
                       model_.decoder_matrix(layer, kInnerContract), sizes.decoder_activation,
                       model_.decoder_norm(layer, 2), epsilon, is_first);
  }

  struct Continuation {
    float score;
    int32_t id;
    int64_t parent;
  };

  // Replaces a sentence's candidates by the best that go on, and notes the best that ended.
  void extend(Sentence& sentence, float* logits) {
    const int64_t num_ids = model_.sizes.target_ids, beam_size = options_.beam_size;
    const int64_t index = sentence.index();
    const int64_t limit = (options_.num_ends + 1) * beam_size, wanted = std::min(limit, num_ids);
    best_.resize(wanted);
    best_ids_.resize(wanted);
    std::vector<Continuation> found;
    for (size_t j = 0; j < sentence.alive.size(); ++j, logits += num_ids) {
      const Candidate& parent = sentence.alive[j];
      const LogSum total = QUINTAIN_DISPATCH(log_sum_exp, logits, num_ids);
      if (std::isnan(total.log_rest)) continue;
      apply_rules(sentence, parent, index, logits);
      const int64_t count = QUINTAIN_DISPATCH(find_largest, logits, num_ids, wanted, best_.data(),
                                              best_ids_.data());
      for (int64_t i = 0; i < count; ++i) {
        const float score = (best_[i] - total.largest) - total.log_rest;
        found.push_back({score + parent.score, best_ids_[i], static_cast<int64_t>(j)});
      }
    }
    std::stable_sort(found.begin(), found.end(), [](const Continuation& a, const Continuation& b) {
      return a.score > b.score;
    });
    if (static_cast<int64_t>(found.size()) > limit) found.resize(limit);
    std::vector<Candidate> alive;
    for (const Continuation& one : found) {
      const bool is_end = std::find(ends_.begin(), ends_.end(), one.id) != ends_.end();
      if (!is_end && static_cast<int64_t>(alive.size()) == beam_size) continue;
      if (!(one.score > kMinusInfinity)) continue;
      Candidate next = sentence.alive[one.parent];
      next.ids.push_back(one.id);
      next.score = one.score;
      if (is_end) {
        next.score /= norm(index + 1);
        finish(sentence, std::move(next));
      } else {
        alive.push_back(std::move(next));
      }
    }
    // Of candidates that nothing may continue, or whose logits are no numbers, none is an output.
    sentence.alive = std::move(alive);
  }

  void finish(Sentence& sentence, Candidate candidate) {
    std::vector<Candidate>& finished = sentence.finished;
    auto place = finished.begin();
    while (place != finished.end() && !(candidate.score > place->score)) ++place;
    finished.insert(place, std::move(candidate));
    if (static_cast<int64_t>(finished.size()) > options_.num_outputs) finished.pop_back();
  }

  // Drops candidates that can't get into the outputs any more: neither they nor what continues
  // them would change these. Returns whether none is left.
  bool is_settled(Sentence& sentence) {
    std::vector<Candidate>& alive = sentence.alive;
    if (alive.empty() || sentence.index() >= sentence.max_length) return true;
    if (static_cast<int64_t>(sentence.finished.size()) < options_.num_outputs) return false;
    const float last = sentence.finished.back().score, longest = norm(sentence.max_length);
    while (!alive.empty() && last >= alive.back().score / longest) alive.pop_back();
    return alive.empty();
  }

  void apply_rules(const Sentence& sentence, const Candidate& candidate, int64_t index,
                   float* logits) const {
    const int64_t num_ids = model_.sizes.target_ids;
    const std::vector<int32_t>& ids = candidate.ids;
    if (index < static_cast<int64_t>(sentence.prefix.size()) && sentence.prefix[index] != 0) {
      const int32_t forced = sentence.prefix[index];
      const float logit = logits[forced];
      std::fill(logits, logits + num_ids, kMinusInfinity);
      logits[forced] = logit;
      return;
    }
    if (index < options_.min_length) {
      for (const int32_t end : ends_) logits[end] = kMinusInfinity;
    }
    const int64_t size = options_.no_repeat_ngram_size;
    for (int64_t start = 0; size > 0 && start + size <= index; ++start) {
      const auto run = ids.begin() + start;
      if (std::equal(run, run + size - 1, ids.end() - (size - 1))) {
        logits[run[size - 1]] = kMinusInfinity;
      }
    }
  }

  float norm(int64_t length) const {
    return std::pow((5.0f + static_cast<float>(length)) / 6.0f, options_.alpha);
  }

  void count_up(int64_t count) {
    for (int64_t i = numbers_.size(); i < count; ++i) numbers_.push_back(static_cast<int32_t>(i));
  }

  const Model& model_;
  const Options options_;
  const std::vector<int32_t> ends_;
  Rows rows_;
  Buffer logits_;
  std::vector<float> best_;
  std::vector<int32_t> best_ids_, numbers_;  // The latter: 0, 1, 2, ...
  std::deque<Sentence> new_, live_, done_;
};

}  // namespace translation
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_TRANSLATION_SEARCH_H_
