// The OpenAPI document against the code: replies our functions write fit its schemas, bodies are accepted by the parser
// exactly when they fit (as far as a schema can say), and the validator can fail.
//
//     node tests/server/test_openapi.mjs PRINT_REPLIES-PROGRAM OPENAPI.JSON
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { openApi } from './validate.mjs';

const [program, path] = process.argv.slice(2);
const api = openApi(path);

test('the validator finds each kind of fault', () => {
    const good = { error: { message: 'm', type: 'server_error', param: null, code: 'c' } };
    api.check('Error', good);
    const faults = [
        [{}, /lacks 'error'/],
        [{ error: { ...good.error, message: 5 } }, /\.error\.message is number, not string/],
        [{ error: { ...good.error, type: 'oops' } }, /\.error\.type is "oops", not one of/],
        [{ error: { ...good.error, more: 1 } }, /unknown field 'more'/],
        [{ ...good, more: 1 }, /unknown field 'more'/],
        [[], /is array, not object/],
        [null, /is null, not object/],
    ];
    for (const [value, message] of faults) assert.throws(() => api.check('Error', value), message);
    assert.throws(() => api.check('Tokens', { object: 'tokens', model: 'm', count: 1, tokens: [1.5] }), /tokens\[0\] is number/);
    assert.throws(() => api.check('TokenLogprob', { token: '', logprob: 0, bytes: [256] }), /bytes\[0\] is 256, above 255/);
    assert.throws(() => api.check('ResponseEvent', { type: 'response.created', sequence_number: 0 }), /fits 0 of 7 forms/);
    assert.throws(() => api.check('KvPolicy', { cold: 'q2' }), /\.cold is "q2"/);
    assert.throws(() => api.check('ChatRequest', { model: 'm', messages: [] }), /fewer than 1/);
    assert.throws(() => api.checkReply('get', '/healthz', 200, 'text/plain', {}), /no text\/plain/);
    assert.throws(() => api.checkReply('get', '/nowhere', 200, 'application/json', {}), /no 200/);
});

test('every reference and keyword of the document is known', () => {
    for (const name of Object.keys(api.document.components.schemas)) {
        try {
            api.check(name, { any: [] });
        } catch (error) {
            assert.doesNotMatch(error.message, /not known here|has no/);
        }
    }
});

test('every operation answers with errors of the same form', () => {
    for (const [route, operations] of Object.entries(api.document.paths))
        for (const [method, operation] of Object.entries(operations))
            for (const status of Object.keys(operation.responses).filter((code) => code !== '200'))
                api.checkReply(method, route, status, 'application/json', {
                    error: { message: 'm', type: 'invalid_request_error', param: null, code: null },
                });
});

test('what our functions write fits its schema', () => {
    const lines = execFileSync(program, ['replies'], { encoding: 'utf8' }).trim().split('\n');
    const seen = new Set();
    for (const line of lines) {
        const [name, json] = line.split('\t');
        api.check(name, JSON.parse(json));
        seen.add(name);
    }
    for (const name of ['ChatCompletion', 'ChatCompletionChunk', 'Completion', 'Response', 'ResponseEvent', 'Embeddings', 'Model',
        'ModelList', 'Tokens', 'Text', 'Prompt', 'SessionDeleted', 'Adapter', 'AdapterDeleted', 'AdapterDiff', 'Feedback', 'Rollback', 'Pattern', 'PatternsDeleted', 'Learning', 'LearningEvent', 'LearningPause', 'LearningForget', 'LearningDeep', 'Error'])
        assert.ok(seen.has(name), name);
});

// For every field of a request's schema: values at and beyond its edges, judged by the schema and by the parser.
function* variants(schema) {
    const odd = [null, true, false, 'x', '', '1', [], {}, ['text'], -1, 0, 1, 1.5, 2, 3, 9, 11, 101, 2147483647, 2147483648, 1e308];
    for (const [field, rule] of Object.entries(schema.properties)) {
        const values = [...odd, ...(rule.enum ?? [])];
        for (const key of ['minimum', 'maximum'])
            if (rule[key] !== undefined) values.push(rule[key] - 1, rule[key], rule[key] + 1);
        for (const value of values) yield [field, value];
    }
    yield ['no_such_field', 1];
}

// What no schema says: fields that need or exclude each other, and limits in bytes.
const exempt = new Set(['top_logprobs', 'stream_options', 'best_of', 'max_completion_tokens', 'add_bos', 'parse_special', 'messages',
    'prompt', 'logit_bias', 'correction', 'preferred', 'rejected']);

const kinds = {
    chat: ['ChatRequest', { model: 'm', messages: [{ role: 'user', content: 'x' }] }],
    completion: ['CompletionRequest', { model: 'm', prompt: 'x' }],
    embedding: ['EmbeddingRequest', { model: 'm', input: 'x' }],
    response: ['ResponseRequest', { model: 'm', input: 'x' }],
    tokenize: ['TokenizeRequest', { model: 'm', prompt: 'x' }],
    detokenize: ['DetokenizeRequest', { model: 'm', tokens: [1] }],
    adapter: ['AdapterLoad', { id: 'acme/a', path: 'a.gguf' }],
    feedback: ['FeedbackRequest', { response_id: 'cmpl-1', score: 1 }],
    rollback: ['RollbackRequest', { generation: 0 }],
    pause: ['LearningPauseRequest', {}],
    forget: ['LearningForgetRequest', { event: 1 }],
    deep: ['LearningDeepRequest', {}],
    template: ['TemplateRequest', { model: 'm', messages: [{ role: 'user', content: 'x' }] }],
};

for (const [kind, [name, least]] of Object.entries(kinds)) {
    test(`the parser of ${kind} agrees with the document`, () => {
        const cases = [...variants(api.document.components.schemas[name])].filter(([field]) => !exempt.has(field));
        const bodies = cases.map(([field, value]) => JSON.stringify({ ...least, [field]: value }));
        const verdicts = execFileSync(program, ['parse', kind], { input: bodies.join('\n') + '\n', encoding: 'utf8' }).trim().split('\n');
        assert.equal(verdicts.length, bodies.length);
        bodies.forEach((body, i) => {
            let fits = true;
            try {
                api.check(name, JSON.parse(body));
            } catch (error) {
                assert.doesNotMatch(error.message, /not known here/);
                fits = false;
            }
            assert.equal(verdicts[i] === 'ok', fits, `${body}: the parser says '${verdicts[i]}', the document ${fits ? 'takes' : 'refuses'} it`);
        });
    });
}
