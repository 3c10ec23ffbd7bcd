// The engine: a trie of keys, in order of selectivity, with sorted arrays and a Rest at every node.
//
// A conjunction is filed once: under its equalities, rarest first (without one, under its longest string
// pattern; a set of values is filed under each member, of which an event has at most one). What is left
// decides the shelf in that node: nothing → `all`; one number comparison → a sorted array, answered by a
// slice; more → `rest`. An event visits only nodes all of whose keys hold.
//
// Which equality is rarest is learned from events. A cursor goes round the entries, a step with every add
// and every 64th match, and files anew what would now be filed elsewhere: no pause, no rebuild.
#pragma once
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "rest.hpp"

namespace runnel {

struct Shelf {  // entries left with one comparison of one attribute
    AttributeNo attribute;
    Ask ask;  // above or below
    Sorted ids;
};

struct Node {
    Node* parent = nullptr;
    KeyNo key = kNoKey;
    Sorted all;
    std::vector<Shelf> shelves;
    std::unique_ptr<Rest> rest;
    IntMap<Node*> children;

    bool empty() const { return all.empty() && shelves.empty() && !rest && children.size() == 0; }
};

// One disjunct on its way in, as the binding translates it.
struct Conjunction {
    std::vector<KeyNo> equals;
    std::vector<std::vector<KeyNo>> sets;  // `in`: keys of the members
    std::vector<AttributeNo> set_attributes;
    std::vector<Kind> set_kinds;
    std::vector<Test> tests;
};

class Engine {
   public:
    Keys keys;
    std::uint64_t version = 0;  // moves whenever an entry does, which is when slices go stale

    ~Engine() {
        std::vector<Id> ids;
        subscriptions_.each([&](std::uint64_t id, Subscription*) { ids.push_back(static_cast<Id>(id)); });
        for (Id id : ids) remove(id);
    }

    std::size_t size() const { return subscriptions_.size(); }
    bool has(Id id) { return subscriptions_.find(static_cast<std::uint64_t>(id)) != nullptr; }

    void add(Id id, std::vector<Conjunction>& disjuncts) {
        auto* s = new Subscription{id};
        s->several = disjuncts.size() > 1;
        subscriptions_.at(static_cast<std::uint64_t>(id)) = s;
        for (Conjunction& c : disjuncts) add_entries(s, c);
        refile_next();
    }

    bool remove(Id id) {
        Subscription** found = subscriptions_.find(static_cast<std::uint64_t>(id));
        if (!found) return false;
        Subscription* s = *found;
        subscriptions_.erase(static_cast<std::uint64_t>(id));
        for (Entry* e = s->entries; e;) {
            Entry* next = e->sibling;
            unfile(e);
            drop(e);
            e = next;
        }
        delete s;
        return true;
    }

    // Call after keys.begin_event() and keys.set_…; the slices hold until the next call on the engine.
    void match(Answer& out) {
        if (keys.now % 64 == 0) refile_next();
        look(out);
    }

    // The same without learning: slices hold until an entry is added or removed.
    void look(Answer& out) {
        out.slices.reserve(16);
        visit(root_, out);
    }

   private:
    void visit(Node& node, Answer& out) {
        if (!node.all.empty()) node.all.all(out.slices);
        for (const Shelf& shelf : node.shelves) {
            if (keys.kind(shelf.attribute) != Kind::number) continue;
            const Number v = keys.attribute(shelf.attribute).number;
            shelf.ask == Ask::above ? shelf.ids.above(v, out.slices) : shelf.ids.below(v, out.slices);
        }
        if (node.rest) node.rest->match(keys, out.loose);
        if (node.children.size() == 0) return;
        if (node.children.size() == 1) {
            Node* child = node.children.only();
            if (keys.holds(child->key)) visit(*child, out);
            return;
        }
        for (KeyNo k : keys.holding)
            if (Node** child = node.children.find(k)) visit(**child, out);
    }

    void add_entries(Subscription* s, Conjunction& c) {
        std::vector<KeyNo> path = c.equals;
        std::size_t spread = c.sets.size();  // the set that is filed under each member
        if (path.empty())
            for (std::size_t i = 0; i < c.sets.size(); ++i)
                if (spread == c.sets.size() || c.sets[i].size() < c.sets[spread].size()) spread = i;
        for (std::size_t i = 0; i < c.sets.size(); ++i)
            if (i != spread) {
                c.tests.push_back({Ask::among, c.set_kinds[i], c.set_attributes[i], {}});
                c.tests.back().members = new std::vector<KeyNo>(c.sets[i]);
            }
        if (spread < c.sets.size()) {
            for (std::size_t i = 0; i < c.sets[spread].size(); ++i) add_entry(s, {c.sets[spread][i]}, c.tests, i > 0);
            return;
        }
        if (path.empty()) {
            auto longest = c.tests.end();
            for (auto t = c.tests.begin(); t != c.tests.end(); ++t)
                if (t->ask == Ask::holds &&
                    (longest == c.tests.end() || keys.keys[t->key].text.size() > keys.keys[longest->key].text.size()))
                    longest = t;
            if (longest != c.tests.end()) {
                path.push_back(longest->key);
                c.tests.erase(longest);
            }
        }
        add_entry(s, path, c.tests, false);
    }

    // Takes over the uses of the keys it is given; a `copy` of an earlier entry's tests adds its own.
    void add_entry(Subscription* s, std::vector<KeyNo> path, std::vector<Test> tests, bool copy) {
        for (Test& t : tests) {
            keys.ask(t.attribute);
            if (!copy) continue;
            if (t.ask == Ask::among || t.ask == Ask::not_among) {
                t.members = new std::vector<KeyNo>(*t.members);
                for (KeyNo k : *t.members) ++keys.keys[k].uses;
            } else if (names_key(t.ask)) {
                ++keys.keys[t.key].uses;
            }
        }
        for (KeyNo k : path) {
            keys.ask(keys.keys[k].attribute);
            ++keys.keys[k].path_uses;
        }
        sort_by_chance(path);
        Entry* e = Entry::make(s, path, tests);
        e->number = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back(e);
        file(e);
    }

    void drop(Entry* e) {
        for (Test *t = e->tests(), *end = t + e->test_size; t < end; ++t) {
            keys.cease(t->attribute);
            if (t->ask == Ask::among || t->ask == Ask::not_among) {
                for (KeyNo k : *t->members) keys.release(k);
                delete t->members;
            } else if (names_key(t->ask)) {
                keys.release(t->key);
            }
        }
        for (KeyNo *k = e->path(), *end = k + e->path_size; k < end; ++k) {
            keys.cease(keys.keys[*k].attribute);
            --keys.keys[*k].path_uses;
            keys.release(*k);
        }
        entries_.back()->number = e->number;
        entries_[e->number] = entries_.back();
        entries_.pop_back();
        std::free(e);
    }

    static bool names_key(Ask ask) {
        return ask == Ask::not_equal || (ask >= Ask::text_less && ask <= Ask::text_more_equal) ||
               (ask >= Ask::holds && ask <= Ask::not_like);
    }

    void sort_by_chance(std::vector<KeyNo>& path) const {
        std::stable_sort(path.begin(), path.end(), [&](KeyNo a, KeyNo b) { return keys.chance(a) < keys.chance(b); });
    }

    static bool on_shelf(Entry* e) {
        return !e->owner->several && e->test_size == 1 && (e->tests()->ask == Ask::above || e->tests()->ask == Ask::below);
    }

    void file(Entry* e) {
        ++version;
        Node* node = &root_;
        for (KeyNo *k = e->path(), *end = k + e->path_size; k < end; ++k) {
            Node*& child = node->children.at(*k);
            if (!child) {
                child = new Node;
                child->parent = node;
                child->key = *k;
            }
            node = child;
        }
        e->node = node;
        if (on_shelf(e)) {
            shelf(*node, *e->tests()).ids.insert(e->tests()->cut, e->owner->id);
        } else if (e->test_size == 0 && !e->owner->several) {
            node->all.insert({}, e->owner->id);
        } else {
            if (!node->rest) node->rest = std::make_unique<Rest>();
            node->rest->add(e);
        }
    }

    void unfile(Entry* e) {
        ++version;
        Node* node = e->node;
        if (on_shelf(e)) {
            Shelf& s = shelf(*node, *e->tests());
            s.ids.erase(e->tests()->cut, e->owner->id);
            if (s.ids.empty()) node->shelves.erase(node->shelves.begin() + (&s - node->shelves.data()));
        } else if (e->test_size == 0 && !e->owner->several) {
            node->all.erase({}, e->owner->id);
        } else {
            node->rest->remove(e);
            if (node->rest->empty()) node->rest.reset();
        }
        while (node->parent && node->empty()) {
            Node* parent = node->parent;
            parent->children.erase(node->key);
            delete node;
            node = parent;
        }
    }

    static Shelf& shelf(Node& node, const Test& t) {
        for (Shelf& s : node.shelves)
            if (s.attribute == t.attribute && s.ask == t.ask) return s;
        node.shelves.push_back({t.attribute, t.ask, {}});
        return node.shelves.back();
    }

    void refile_next() {
        if (entries_.empty()) return;
        cursor_ = (cursor_ + 1) % entries_.size();
        Entry* e = entries_[cursor_];
        if (e->path_size < 2) return;
        std::vector<KeyNo> path(e->path(), e->path() + e->path_size);
        sort_by_chance(path);
        if (2 * keys.chance(path[0]) > keys.chance(e->path()[0])) return;  // not worth the move
        unfile(e);
        std::copy(path.begin(), path.end(), e->path());
        file(e);
    }

    Node root_;
    IntMap<Subscription*> subscriptions_;
    std::vector<Entry*> entries_;
    std::size_t cursor_ = 0;
};

}  // namespace runnel
