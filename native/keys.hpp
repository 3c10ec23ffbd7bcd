// Keys: every distinct literal, tried once per event and shared by all filters that use it.
//
// A key is (attribute, shape, literal): `symbol = 'YHOO'`, `note prefix 'ab'`. For each attribute of an
// event the tables name the keys that hold, without trying those that do not: equality and prefixes and
// suffixes by hash (one look-up per length in use), substrings by the hash of their first four bytes.
// A key that holds carries the number of the event as its stamp, so that asking again costs one compare.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "like.hpp"
#include "numbers.hpp"
#include "tables.hpp"

namespace runnel {

using KeyNo = std::uint32_t;
using AttributeNo = std::uint32_t;
constexpr KeyNo kNoKey = 0xFFFFFFFF;

enum class Kind : std::uint8_t { absent, number, text, boolean };
// `literal` keys only keep a text (for string comparisons); they never hold.
enum class Shape : std::uint8_t { equal_number, equal_text, equal_bool, prefix, suffix, contains, like, literal };

struct Key {
    std::string text;
    Number number;
    std::unique_ptr<Like> like;
    std::uint64_t stamp = 0;   // event in which it last held
    std::uint64_t tried = 0;   // like only: event in which it was last tried
    KeyNo next = kNoKey;       // next key with the same hash
    AttributeNo attribute = 0;
    std::uint32_t uses = 0;       // predicates that name it
    std::uint32_t path_uses = 0;  // entries filed under it
    std::uint32_t hits = 0;       // events in which it held: the learned selectivity
    Shape shape = Shape::literal;
};

struct Attribute {
    // The event at hand.
    std::uint64_t stamp = 0;
    Kind kind = Kind::absent;
    KeyNo equal = kNoKey;
    Number number;
    std::string_view text;
    // What is asked of it.
    std::uint32_t uses = 0;
    std::uint32_t equals = 0;                 // distinct equality keys
    IntMap<KeyNo> table;                      // hash of the literal, salted by shape → first key
    std::vector<std::uint32_t> lengths[2];    // uses by length of prefix / suffix
    std::uint32_t grams[5] = {};              // substrings by length of their gram
    std::uint32_t patterns = 0;
};

class Keys {
   public:
    std::vector<Attribute> attributes;
    std::vector<Key> keys;
    std::vector<KeyNo> holding;  // path keys that hold in the event at hand
    std::uint64_t now = 0;
    std::uint32_t seen = 0;  // events, on the scale of Key::hits

    std::uint64_t asked_changes = 0;  // how often an attribute began or ceased to be asked for

    const Attribute& attribute(AttributeNo a) const { return attributes[a]; }
    void ask(AttributeNo a) { asked_changes += attributes[a].uses++ == 0; }
    void cease(AttributeNo a) { asked_changes += --attributes[a].uses == 0; }
    Kind kind(AttributeNo a) const { return attributes[a].stamp == now ? attributes[a].kind : Kind::absent; }
    bool holds(KeyNo k) const { return keys[k].stamp == now; }

    bool like_holds(KeyNo k) {
        Key& key = keys[k];
        if (key.tried != now) {
            key.tried = now;
            const Attribute& a = attributes[key.attribute];
            if (kind(key.attribute) == Kind::text && key.like->matches(a.text)) key.stamp = now;
        }
        return key.stamp == now;
    }

    // The chance that an event satisfies the key, as far as events and filters tell.
    double chance(KeyNo k) const {
        const Key& key = keys[k];
        return (key.hits + 1.0) / (seen + attributes[key.attribute].equals + attributes[key.attribute].patterns + 1.0);
    }

    KeyNo use_number(AttributeNo a, Number n) {
        return use(a, Shape::equal_number, hash(n), [&](const Key& k) { return k.number == n; },
                   [&](Key& k) { k.number = n; });
    }
    KeyNo use_bool(AttributeNo a, bool value) {
        return use(a, Shape::equal_bool, hash(value), [&](const Key& k) { return (k.number.d != 0) == value; },
                   [&](Key& k) { k.number.d = value; });
    }
    KeyNo use_text(AttributeNo a, Shape shape, std::string_view text) {
        return use(a, shape, hash(shape, text), [&](const Key& k) { return k.text == text; },
                   [&](Key& k) {
                       k.text = text;
                       if (shape == Shape::like) k.like = std::make_unique<Like>(text);
                   });
    }

    void release(KeyNo k) {
        Key& key = keys[k];
        if (--key.uses) return;
        count(key, -1);
        Attribute& a = attributes[key.attribute];
        const std::uint64_t h = hash(key);
        KeyNo* link = a.table.find(h);
        while (*link != k) link = &keys[*link].next;
        *link = key.next;
        if (*a.table.find(h) == kNoKey) a.table.erase(h);
        key = Key{};
        free_.push_back(k);
    }

    void begin_event() {
        ++now;
        holding.clear();
        if (++seen == 1u << 20) forget();
    }
    void set_number(AttributeNo at, Number n) {
        Attribute& a = set(at, Kind::number);
        a.number = n;
        if (a.equals) note_equal(a, find(a, hash(n), Shape::equal_number, [&](const Key& k) { return k.number == n; }));
    }
    void set_bool(AttributeNo at, bool value) {
        Attribute& a = set(at, Kind::boolean);
        if (a.equals)
            note_equal(a, find(a, hash(value), Shape::equal_bool, [&](const Key& k) { return (k.number.d != 0) == value; }));
    }
    void set_text(AttributeNo at, std::string_view text) {
        Attribute& a = set(at, Kind::text);
        a.text = text;
        if (a.equals) note_equal(a, find_text(a, Shape::equal_text, text));
        if (!a.patterns) return;
        for (std::size_t n = 0; n < a.lengths[0].size() && n <= text.size(); ++n)
            if (a.lengths[0][n]) note(find_text(a, Shape::prefix, text.substr(0, n)));
        for (std::size_t n = 0; n < a.lengths[1].size() && n <= text.size(); ++n)
            if (a.lengths[1][n]) note(find_text(a, Shape::suffix, text.substr(text.size() - n)));
        for (std::size_t size = 0; size < 5; ++size)
            if (a.grams[size]) find_substrings(a, text, size);
    }

   private:
    static std::uint64_t salted(Shape s) { return static_cast<std::uint64_t>(s) + 1; }
    static std::uint64_t hash(Number n) { return mix(hash_int(n.bits()), salted(Shape::equal_number)); }
    static std::uint64_t hash(bool b) { return hash_int(b + 2 * salted(Shape::equal_bool)); }
    static std::uint64_t hash(Shape s, std::string_view text) {
        return hash_bytes(s == Shape::contains ? text.substr(0, 4) : text, salted(s));
    }
    static std::uint64_t hash(const Key& k) {
        if (k.shape == Shape::equal_number) return hash(k.number);
        if (k.shape == Shape::equal_bool) return hash(k.number.d != 0);
        return hash(k.shape, k.text);
    }

    template <class Same>
    KeyNo find(Attribute& a, std::uint64_t h, Shape shape, Same&& same) {
        const KeyNo* first = a.table.find(h);
        for (KeyNo k = first ? *first : kNoKey; k != kNoKey; k = keys[k].next)
            if (keys[k].shape == shape && same(keys[k])) return k;
        return kNoKey;
    }
    KeyNo find_text(Attribute& a, Shape shape, std::string_view text) {
        return find(a, hash(shape, text), shape, [&](const Key& k) { return k.text == text; });
    }

    template <class Same, class Fill>
    KeyNo use(AttributeNo at, Shape shape, std::uint64_t h, Same&& same, Fill&& fill) {
        Attribute& a = attributes[at];
        KeyNo k = find(a, h, shape, same);
        if (k == kNoKey) {
            if (free_.empty()) {
                free_.push_back(static_cast<KeyNo>(keys.size()));
                keys.emplace_back();
            }
            k = free_.back();
            free_.pop_back();
            Key& key = keys[k];
            key.attribute = at;
            key.shape = shape;
            fill(key);
            KeyNo* first = a.table.find(h);
            key.next = first ? *first : kNoKey;
            a.table.at(h) = k;
            count(key, +1);
        }
        ++keys[k].uses;
        return k;
    }

    // Keeps the attribute's summary of which look-ups an event needs.
    void count(const Key& key, int by) {
        Attribute& a = attributes[key.attribute];
        const std::size_t size = key.text.size();
        if (key.shape <= Shape::equal_bool) a.equals += by;
        else if (key.shape <= Shape::contains) a.patterns += by;
        if (key.shape == Shape::prefix || key.shape == Shape::suffix) {
            auto& lengths = a.lengths[key.shape == Shape::suffix];
            if (lengths.size() <= size) lengths.resize(size + 1);
            lengths[size] += by;
        } else if (key.shape == Shape::contains) {
            a.grams[size < 4 ? size : 4] += by;
        }
    }

    Attribute& set(AttributeNo at, Kind kind) {
        Attribute& a = attributes[at];
        a.stamp = now;
        a.kind = kind;
        a.equal = kNoKey;
        return a;
    }
    void note_equal(Attribute& a, KeyNo k) {
        a.equal = k;
        note(k);
    }
    void note(KeyNo k) {
        if (k == kNoKey || keys[k].stamp == now) return;
        Key& key = keys[k];
        key.stamp = now;
        ++key.hits;
        if (key.path_uses) holding.push_back(k);
    }
    void find_substrings(Attribute& a, std::string_view text, std::size_t size) {
        const std::size_t stop = size == 0 ? 1 : text.size() + 1;
        for (std::size_t at = 0; at + size < stop; ++at) {
            const KeyNo* first = a.table.find(hash_bytes(text.substr(at, size), salted(Shape::contains)));
            for (KeyNo k = first ? *first : kNoKey; k != kNoKey; k = keys[k].next) {
                const Key& key = keys[k];
                if (key.shape == Shape::contains && key.stamp != now && text.compare(at, key.text.size(), key.text) == 0)
                    note(k);
            }
        }
    }
    // Old events count half, so that the learned chances follow the traffic.
    void forget() {
        seen /= 2;
        for (Key& key : keys) key.hits /= 2;
    }

    std::vector<KeyNo> free_;
};

}  // namespace runnel
